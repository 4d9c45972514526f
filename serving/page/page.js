"use strict";

// The terminal's script starts with the load event; it takes from the page where its WebSocket is.
document.addEventListener("DOMContentLoaded", () => {
  const scheme = window.location.protocol === "https:" ? "wss:" : "ws:";
  const terminal = document.querySelector(".textual-terminal");
  terminal.dataset.sessionWebsocketUrl = `${scheme}//${window.location.host}/ws`;
  const again = document.getElementById("again");
  again.addEventListener("click", () => window.location.reload());
  // Keys go to the terminal as soon as there is a picture. Once it has ended, Enter starts it again.
  new MutationObserver(() => {
    const classes = document.body.classList;
    if (classes.contains("-closed")) again.focus();
    else if (classes.contains("-first-byte")) document.querySelector(".xterm-helper-textarea").focus();
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
});

// The terminal's script opens files, and addresses that it finds in the text: names of processes may look like one.
// Files are stored without another page; nothing else is opened.
window.open = (address) => {
  const url = new URL(address ?? "", window.location.href);
  if (url.origin === window.location.origin && url.pathname.startsWith("/download/")) {
    const link = document.createElement("a");
    link.href = url.pathname;
    link.download = "";
    link.click();
  }
  return null;
};

// Characters are measured when the terminal starts: the font has to be there by then.
document.fonts.load('15px "Roboto Mono"').catch(() => undefined);
