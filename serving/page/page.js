"use strict";

// textual.js starts at the load event and reads the address of its WebSocket from the page.
document.addEventListener("DOMContentLoaded", () => {
  const scheme = window.location.protocol === "https:" ? "wss:" : "ws:";
  const terminal = document.querySelector(".textual-terminal");
  terminal.dataset.sessionWebsocketUrl = `${scheme}//${window.location.host}/ws`;
  const again = document.getElementById("again");
  again.addEventListener("click", () => window.location.reload());
  // The terminal gets the focus when it shows the first output. When the session has ended, the button "Start it
  // again" gets the focus, so that Enter reloads the page.
  new MutationObserver(() => {
    const classes = document.body.classList;
    if (classes.contains("-closed")) again.focus();
    else if (classes.contains("-first-byte")) document.querySelector(".xterm-helper-textarea").focus();
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
});

// textual.js calls window.open for saved files, and for URLs in the text. Other users can put URLs there, as
// names of their processes. So this replacement downloads saved files and opens nothing else.
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

// The terminal measures the size of characters when it starts, so the font must be loaded before that.
document.fonts.load('15px "Roboto Mono"').catch(() => undefined);
