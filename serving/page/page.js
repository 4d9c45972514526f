"use strict";

// The terminal's script starts with the load event; it takes from the page where its WebSocket is.
document.addEventListener("DOMContentLoaded", () => {
  const scheme = window.location.protocol === "https:" ? "wss:" : "ws:";
  const terminal = document.querySelector(".textual-terminal");
  terminal.dataset.sessionWebsocketUrl = `${scheme}//${window.location.host}/ws`;
  const again = document.getElementById("again");
  again.addEventListener("click", () => window.location.reload());
  // Once the screen has ended, Enter starts it again.
  new MutationObserver(() => {
    if (document.body.classList.contains("-closed")) again.focus();
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
});

// Characters are measured when the terminal starts: the font has to be there by then.
document.fonts.load('15px "Roboto Mono"').catch(() => undefined);
