"use strict";
// Beside the terminal's own script: which tab this is, and what happens when its line ends.
(() => {
  const ENDED = 4000, MOVED = 4002, TOO_MANY = 4003; // as web/server.py closes a line
  const KEY = "replexplorer-tab";
  let tab = sessionStorage.getItem(KEY);
  if (!tab) {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    tab = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem(KEY, tab);
  }

  const comeBack = () => {
    fetch("/alive", { cache: "no-store" })
      .then((answer) => (answer.status === 204 || answer.status === 401 ? location.reload() : Promise.reject()))
      .catch(() => setTimeout(comeBack, 1000));
  };

  const closed = (event) => {
    const known = [ENDED, MOVED, TOO_MANY].includes(event.code);
    const lost = "The line to the dashboard was lost. It comes back as soon as the server answers.";
    document.getElementById("why").textContent = known ? event.reason || "The dashboard has ended." : lost;
    window.addEventListener("focus", takeKeys);
    document.getElementById("again").hidden = !known;
    if (!known) setTimeout(comeBack, 1000);
  };

  const takeKeys = () => document.querySelector(".xterm-helper-textarea")?.focus();

  const Line = window.WebSocket;
  window.WebSocket = class extends Line {
    constructor(url) {
      super(`${url}&tab=${tab}`);
      this.addEventListener("open", () => setTimeout(takeKeys));
      this.addEventListener("close", closed);
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    document.getElementById("terminal").dataset.sessionWebsocketUrl = `${scheme}://${location.host}/ws`;
    document.getElementById("again").addEventListener("click", () => location.reload());
  });
})();
