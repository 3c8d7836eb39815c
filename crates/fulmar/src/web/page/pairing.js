// Pairing: asks for a code, shows it for as long as it is one, and tells what became of it (pairing.rs).
"use strict";

{
  const ASK_EVERY_MS = 1000;
  const ANSWER_WITHIN_MS = 9000;
  // The token stays in this page, and goes with the last code.
  let token = "";
  let timer = null;
  let until = 0;
  let told = 0;

  async function ask(what, more = {}) {
    const answer = await fetch("/api/pairing", {
      method: "POST", cache: "no-store", headers: { "content-type": "application/json" },
      body: JSON.stringify({ token, do: what, ...more }), signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    const shown = await answer.json().catch(() => ({ problem: `answer ${answer.status}` }));
    if (!answer.ok) throw new Error(shown.problem);
    return shown;
  }

  function say(text, isBad = false) {
    setText(at("pair-said"), text);
    setAttribute(at("pair-said"), "class", isBad ? "bad" : "");
  }

  const inWords = (event) => {
    const whose = event.code_for ? `code for ${event.code_for}: ` : "";
    switch (event.event) {
      case "came": return `${whose}a drone comes from ${event.from}`;
      case "enrolled": {
        const addresses = event.addresses.length ? `, in the tunnel ${event.addresses.join(", ")}` : "";
        const advice = event.advice ? `; ${event.advice}` : "";
        return `${event.name} is enrolled, from ${event.from}; its key is ${event.public_key}${addresses}${advice}`;
      }
      case "settled": return `${event.name} has taken it over`;
      case "refused": return `refused somebody at ${event.from}: ${event.why}`;
      case "doubled": return `somebody at ${event.from} uses the same code at the same time, and was turned away: was the code seen?`;
      default: return event.event;
    }
  };
  // They come as UTC without a date, and are shown as the other events are.
  const clock = (at) => new Date(`${new Date().toISOString().slice(0, 11)}${at}`).toLocaleTimeString([], { hour12: false });
  const isBad = (event) => event.event === "refused" || event.event === "doubled";

  function show(shown) {
    const isOpen = shown.state === "open";
    at("pair").hidden = isOpen;
    at("pair-shown").hidden = !isOpen;
    const events = shown.events ?? [];
    keep(at("pair-events"), events.map((event, place) => ({ event, key: `${place} ${event.at} ${event.event}` })), (item) => item.key,
      ({ event }) => make("li", {}, make("time", {}, clock(event.at)), make("span", { class: isBad(event) ? "warning" : "" }, `${isBad(event) ? "▲ " : ""}${inWords(event)}`)),
      () => {});
    if (events.length > told) {
      const last = events[events.length - 1];
      say(inWords(last), isBad(last));
    }
    told = events.length;
    if (isOpen) {
      until = performance.now() + shown.left_s * 1000;
      if (at("pair-code").textContent !== shown.code) showCode(shown);
      count();
    } else {
      hide();
      if (shown.problem) say(shown.problem, true);
      else if (shown.state === "none") say("No code is shown any more.");
    }
  }

  function showCode({ code, symbol, code_for: name }) {
    setText(at("pair-code-title"), name ? `The code for ${name}` : "The code");
    setText(at("pair-code"), code);
    const svg = at("pair-symbol");
    svg.setAttribute("viewBox", `0 0 ${symbol.side} ${symbol.side}`);
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", symbol.path);
    path.setAttribute("shape-rendering", "crispEdges");
    svg.replaceChildren(path);
    say("A code is shown; it is valid for ten minutes, once.");
    at("pair-code-title").focus();
  }

  // What was a code is none any more, and leaves the page.
  function hide() {
    clearTimeout(timer);
    timer = null;
    token = "";
    const hadFocus = at("pair-shown").contains(document.activeElement);
    setText(at("pair-code"), "");
    at("pair-symbol").replaceChildren();
    if (hadFocus || document.activeElement === document.body) at("pair-name").focus();
  }

  function count() {
    const left = Math.max(0, Math.round((until - performance.now()) / 1000));
    setText(at("pair-left"), `Valid for ${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`);
  }

  async function follow() {
    try {
      show(await ask("show"));
    } catch (error) {
      say(error.message || "no answer from fulmar web", true);
      count();
    }
    if (token) timer = setTimeout(follow, ASK_EVERY_MS);
  }

  at("pair").addEventListener("submit", async (event) => {
    event.preventDefault();
    token = at("pair-token").value.trim();
    told = 0;
    say("Asking for a code …");
    try {
      show(await ask("begin", { name: at("pair-name").value.trim() }));
      at("pair-token").value = "";
      if (token) timer = setTimeout(follow, ASK_EVERY_MS);
    } catch (error) {
      token = "";
      say(error.message || "no answer from fulmar web", true);
      at("pair-token").focus();
    }
  });

  at("pair-end").addEventListener("click", async () => {
    try {
      show(await ask("end"));
    } catch (error) {
      say(error.message || "no answer from fulmar web", true);
    }
  });
}
