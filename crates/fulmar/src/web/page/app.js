// The page: asks for what is new, and changes only what has changed. It knows no daemon, only /api/view (view.rs).
"use strict";

const ROWS_AT_A_TIME = 40;
const LEAST_PAUSE_MS = 250;
const RETRY_MS = 1000;
const LATE_MS = 3000;
const ANSWER_WITHIN_MS = 9000;
const RANKS = [
  ["lost", "✖", "lost"], ["warning", "▲", "warning"], ["notice", "●", "notice"], ["well", "✔", "well"], ["away", "○", "away"],
];
const SVG = "http://www.w3.org/2000/svg";

const wanted = { rows: ROWS_AT_A_TIME, filter: "", ranks: new Set(), open: null };
let revision = null;
let asking = null;
let heardAt = performance.now();
let failure = "";
let shownOpen = [];

const at = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// Makes the children of a node those of a list, one for each key, in order; those that stay are moved only where they must be.
function keep(parent, list, keyOf, create, update) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstElementChild;
  for (const item of list) {
    const key = keyOf(item);
    let node = old.get(key);
    old.delete(key);
    if (!node) {
      node = create(item);
      node.dataset.key = key;
    }
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
    update(node, item);
  }
  for (const node of old.values()) node.remove();
}

const known = (value) => value !== null && value !== undefined;
const milliseconds = (value) => !known(value) ? "–" : `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;
const percent = (value) => !known(value) ? "–" : `${value < 10 && value > 0 ? value.toFixed(1) : value.toFixed(0)} %`;
function rate(mbps) {
  if (!known(mbps)) return "–";
  if (mbps >= 10) return `${mbps.toFixed(0)} Mbit/s`;
  return mbps >= 0.1 ? `${mbps.toFixed(2)} Mbit/s` : `${(mbps * 1000).toFixed(1)} kbit/s`;
}
function span(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
}

function query(withRevision) {
  const parts = new URLSearchParams({ rows: wanted.rows });
  if (withRevision && revision !== null) parts.append("revision", revision);
  if (wanted.filter) parts.append("filter", wanted.filter);
  for (const rank of wanted.ranks) parts.append("rank", rank);
  if (wanted.open) {
    parts.append("chosen", "1");
    for (const id of wanted.open) parts.append("open", id);
  }
  return parts;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Who is neither looked at nor listened to asks for nothing.
const seen = () => document.hidden && !heard.sound && !heard.speaks
  ? new Promise((done) => document.addEventListener("visibilitychange", done, { once: true })) : null;

async function run() {
  let fresh = false;
  for (;;) {
    await seen();
    const control = asking = new AbortController();
    const timer = setTimeout(() => control.abort("slow"), ANSWER_WITHIN_MS);
    try {
      const answer = await fetch(`/api/view?${query(fresh)}`, { signal: control.signal, cache: "no-store" });
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(`answer ${answer.status}`);
      const view = await answer.json();
      if (control === asking && !control.signal.aborted) {
        heardAt = performance.now();
        failure = "";
        revision = view.revision;
        fresh = true;
        show(view);
      }
      await Promise.race([pause(LEAST_PAUSE_MS), aborted(control)]);
    } catch (error) {
      if (control.signal.reason === "changed") {
        fresh = false;
      } else {
        if (!failure) {
          sound();
          speak("no answer from fulmar web");
        }
        failure = "no answer from fulmar web";
        await pause(RETRY_MS);
      }
    } finally {
      clearTimeout(timer);
    }
    if (control.signal.reason === "changed") fresh = false;
  }
}

const aborted = (control) => new Promise((done) => control.signal.addEventListener("abort", done));

// What is asked for has changed: the answer that is under way is of no use.
function askAnew() {
  asking?.abort("changed");
}

function show(view) {
  alarm(view);
  showDaemons(view.daemons);
  at("pairing").hidden = !view.pairing;
  showWrong(view);
  showRanks(view.counts);
  shownOpen = view.drones.filter((drone) => drone.detail).map((drone) => drone.id);
  const several = view.daemons.length > 1;
  keep(at("drones"), view.drones, (drone) => drone.id, createDrone, (node, drone) => updateDrone(node, drone, view, several));
  showMore(view);
  keep(at("events"), view.events, (event) => `${event.daemon} ${event.run} ${event.seq}`,
    (event) => createEvent(event, several), () => {});
}

function showDaemons(daemons) {
  const words = daemons.map((daemon) => daemon.trouble
    ? `${daemon.name}: ${daemon.trouble}`
    : `${daemon.name}${daemon.name === daemon.role ? "" : ` (${daemon.role})`} ${daemon.version}, up ${span(daemon.uptime_s)}`);
  setText(at("daemons"), words.join(" · "));
}

// What is wrong first, in words; what is said aloud changes only when more than its figures do.
function showWrong(view) {
  const items = [];
  for (const daemon of view.daemons) {
    if (daemon.trouble) items.push({ id: "", rank: "lost", name: daemon.name, text: daemon.trouble });
    else items.push(...strangers(daemon));
  }
  for (const drone of view.wrong.told) items.push(drone);
  if (!view.daemons.length) {
    items.push({ id: "", rank: "lost", name: "no daemon", text: "no daemon has a socket in /run/fulmar" });
  }
  if (view.wrong.more > 0) {
    items.push({ id: "", rank: "warning", name: `${view.wrong.more} more`, text: "are in the list below" });
  }
  const total = Object.values(view.counts).reduce((sum, count) => sum + count, 0);
  if (!items.length) {
    const text = view.counts.notice
      ? `nothing that stops a flight; ${view.counts.notice} of ${total} with a path to look at`
      : total === view.counts.away ? "no peer is connected" : "nothing is wrong";
    items.push({ id: "", rank: "well", name: "", text });
  }
  keep(at("wrong"), items, (item) => `${item.rank} ${item.id} ${item.name}`, createBanner, updateBanner);
  const said = items.map((item) => `${item.name} ${item.text}`.replace(/[\d.,]+/g, "").replace(/\b(ms|s|min|h)\b/g, "")).join("; ");
  if (said !== at("said").dataset.of) {
    at("said").dataset.of = said;
    at("said").textContent = items.map((item) => `${item.name}: ${item.text}`).join("; ");
  }
  document.title = items[0].rank === "well" ? "Fulmar" : `✖ ${items[0].name || items[0].text} · Fulmar`;
}

function strangers(daemon) {
  const recent = (last) => known(last) && last < 600;
  const items = [];
  if (recent(daemon.unknown_peers_last_s)) {
    items.push({ id: "", rank: "warning", name: daemon.name, text: `somebody tries with a key that no peer here has, last ${span(daemon.unknown_peers_last_s)} ago` });
  }
  if (recent(daemon.other_keys_last_s)) {
    items.push({ id: "", rank: "warning", name: `${daemon.name} `, text: `somebody tries who expects another public key here, last ${span(daemon.other_keys_last_s)} ago` });
  }
  return items;
}

function createBanner(item) {
  const node = item.id ? make("button", { type: "button" }) : make("p");
  node.append(make("b"), make("span"));
  if (item.id) {
    node.addEventListener("click", () => {
      open(item.id, true);
      at("drones").scrollIntoView();
    });
  }
  return node;
}

function updateBanner(node, item) {
  setAttribute(node, "class", `banner ${item.rank}`);
  const mark = RANKS.find(([rank]) => rank === item.rank)[1];
  setText(node.firstChild, `${mark} ${item.name}${item.name ? ": " : ""}`);
  setText(node.lastChild, item.text);
}

function showRanks(counts) {
  const present = RANKS.filter(([rank]) => counts[rank] || wanted.ranks.has(rank));
  const legend = at("ranks").querySelector("legend");
  legend.dataset.key = "legend";
  keep(at("ranks"), [["legend"], ...present], ([rank]) => rank, createRank, (node, [rank, mark, word]) => {
    if (rank === "legend") return;
    setText(node, `${mark} ${counts[rank]} ${word}`);
    setAttribute(node, "aria-pressed", String(wanted.ranks.has(rank)));
  });
}

function createRank([rank]) {
  const node = make("button", { type: "button" });
  node.addEventListener("click", () => {
    if (!wanted.ranks.delete(rank)) wanted.ranks.add(rank);
    askAnew();
  });
  return node;
}

function showMore(view) {
  const left = view.matching - view.drones.length;
  const place = at("more");
  if (!place.firstChild) {
    const button = make("button", { type: "button" });
    button.addEventListener("click", () => {
      wanted.rows += ROWS_AT_A_TIME;
      askAnew();
    });
    place.append(make("span"), button);
  }
  const [told, button] = place.children;
  setText(told, view.matching ? "" : "No peer is like that.");
  button.hidden = left <= 0;
  setText(button, `Show ${Math.min(left, ROWS_AT_A_TIME)} more of ${left}`);
}

function open(id, is) {
  wanted.open ??= new Set(shownOpen);
  if (is) wanted.open.add(id);
  else wanted.open.delete(id);
  askAnew();
}

function createDrone(drone) {
  const head = make("button", { class: "head", type: "button", "aria-expanded": "false" },
    make("span", { class: "who" }),
    make("span", {}, make("span", { class: "word" }), make("span", { class: "vehicles" }), make("span", { class: "chips" })));
  head.addEventListener("click", () => open(drone.id, head.getAttribute("aria-expanded") !== "true"));
  return make("li", {}, head);
}

function updateDrone(node, drone, view, several) {
  const [rank, mark, word] = RANKS.find(([rank]) => rank === drone.rank);
  setAttribute(node, "class", rank);
  const head = node.firstChild;
  const [who, what] = head.children;
  setText(who, several ? `${drone.name} (${drone.daemon})` : drone.name);
  setText(what.firstChild, `${mark} ${drone.text ? drone.text : word}`);
  keep(what.children[1], drone.vehicles.map((text, place) => ({ text, place })), (vehicle) => `${vehicle.place}`, () => make("span"),
    (line, vehicle) => setText(line, vehicle.text));
  keep(what.lastChild, drone.paths, (path) => `${path.name} ${path.interface}`, () => make("span"), (chip, path) => {
    const works = path.state === "active";
    setAttribute(chip, "class", works ? "" : "dead");
    setText(chip, works
      ? `${pathName(path)} ${milliseconds(path.rtt_ms)}${path.loss >= 1 ? `, loss ${percent(path.loss)}` : ""}`
      : `${pathName(path)} ${path.state}`);
  });
  setAttribute(head, "aria-expanded", String(Boolean(drone.detail)));
  let detail = node.children[1];
  if (!drone.detail) {
    detail?.remove();
    return;
  }
  if (!detail) {
    detail = make("div", { class: "detail" }, make("div"), make("div"), make("div"), make("div"), make("div"));
    node.append(detail);
  }
  updateDetail(detail, drone, view.bucket_s);
}

// A drone's path is called by its interface at both ends where its name is an address.
const pathName = (path) => /^[\d.[\]:a-f]+$/.test(path.name) && path.interface ? `${path.interface} ${path.name}` : path.name;

function updateDetail(node, drone, bucket) {
  const [paths, classes, targets, streams, events] = node.children;
  const rows = drone.detail.paths.map((path, place) => ({ path, history: drone.detail.histories[place] }));
  keep(paths, rows, (row) => `${row.path.name} ${row.path.interface}`, createPath, (block, row) => updatePath(block, row, bucket));
  table(classes, "Traffic by class", ["class", "sent", "dropped", "received", "late", "median delay", "99 %", "longest"],
    drone.detail.classes.map((of) => [of.class, of.submitted, of.dropped, of.delivered, of.late,
      milliseconds(of.delay_p50_ms), milliseconds(of.delay_p99_ms), milliseconds(of.delay_max_ms)]));
  const share = (value) => known(value) ? `${(value * 100).toFixed(3)} %` : "–";
  table(targets, "Reliability targets", ["target", "asked", "state", "achieved", "missed", "copies", "what limits"],
    drone.detail.reliability.map((of) => [of.name, `${share(of.target)} in ${of.deadline_ms.toFixed(0)} ms`, of.state,
      share(of.achieved), of.missed, known(of.copies_per_message) ? of.copies_per_message.toFixed(2) : "–", of.limit || "–"]),
    (row) => row[2] === "not reachable");
  table(streams, "Messages", ["stream", "sent", "too late", "received", "skipped", "waiting"],
    drone.detail.streams.map((of) => [of.name || `${of.channel}/${of.stream}`, of.sent, of.expired, of.delivered, of.skipped, `${of.waiting_bytes} bytes`]));
  if (!events.firstChild) events.append(make("h3", {}, "Its events"), make("ol", { class: "events", tabindex: "0", "aria-label": "Its events" }));
  events.hidden = !drone.detail.events.length;
  keep(events.lastChild, drone.detail.events, (event) => `${event.run} ${event.seq}`, (event) => createEvent(event, false, true), () => {});
}

// A table with a caption and headers; nothing where it has no rows.
function table(place, caption, columns, rows, isBad = () => false) {
  place.hidden = !rows.length;
  if (!place.firstChild) {
    const heads = columns.map((column) => make("th", { scope: "col" }, column));
    place.className = "scroll";
    // What may scroll is reached by the keyboard, and says what it is.
    for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", caption]]) place.setAttribute(name, value);
    place.append(make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), make("tbody")));
  }
  keep(place.querySelector("tbody"), rows, (row) => row[0], () => {
    return make("tr", {}, make("th", { scope: "row" }), ...columns.slice(1).map(() => make("td")));
  }, (node, row) => {
    setAttribute(node, "class", isBad(row) ? "bad" : "");
    row.forEach((cell, place) => {
      setText(node.children[place], String(cell));
      if (columns[place] === "what limits") node.children[place].className = "text";
    });
  });
}

const SPARKS = [
  ["round trip", [["delay", "delay_ms"]], (value) => milliseconds(value), 20],
  ["loss", [["loss", "loss_percent"]], (value) => percent(value), 10],
  ["rate", [["out", "out_kbps"], ["in", "in_kbps"]], (value) => rate(value / 1000), 8],
];

function createPath() {
  const figures = SPARKS.map(() => {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "spark");
    svg.setAttribute("viewBox", "0 0 300 40");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    return make("figure", {}, make("figcaption"), svg);
  });
  return make("div", { class: "path" }, make("h3", {}, make("span"), make("span")), make("p", { class: "why" }), make("dl"),
    make("div", { class: "sparks" }, ...figures));
}

function updatePath(node, { path, history }, bucket) {
  const [title, why, list, sparks] = node.children;
  const works = path.state === "active";
  const use = path.backup ? (path.in_use ? `backup, in use: ${path.in_use}` : "backup, in reserve") : "";
  setText(title.firstChild, pathName(path));
  setText(title.lastChild, `: ${path.state}${use ? `, ${use}` : ""}`);
  setAttribute(title.lastChild, "class", works ? "" : "bad");
  setText(why, path.trouble);
  const facts = [
    ["round trip", works ? milliseconds(path.srtt_ms) : "–"], ["loss out", percent(path.loss_percent)],
    ["loss in", percent(path.loss_in_percent)], ["out", rate(path.out_mbps)], ["in", rate(path.in_mbps)],
  ];
  if (known(path.can_carry_mbps)) facts.push(["can carry", rate(path.can_carry_mbps)]);
  if (pathName(path) === path.name) facts.push(["to", path.remote]);
  keep(list, facts, ([name]) => name, ([name]) => make("div", {}, make("dt", {}, name), make("dd")),
    (fact, [, value]) => setText(fact.lastChild, value));
  SPARKS.forEach((spark, place) => updateSpark(sparks.children[place], spark, history, bucket, pathName(path)));
}

// Draws the last minutes, the newest at the right; where the path did not work, the ground is coloured.
function updateSpark(figure, [title, lines, words, least], history, bucket, name) {
  const [caption, svg] = figure.children;
  const length = history ? history.works.length : 0;
  const all = history ? lines.flatMap(([, key]) => history[key]).filter(known) : [];
  const most = all.length ? all.reduce((one, other) => Math.max(one, other), 0) : 0;
  const top = Math.max(most * 1.1, least);
  const minutes = Math.max(1, Math.round(length * bucket / 60));
  const kinds = lines.length > 1 ? " (in: dashed)" : "";
  setText(caption, `${title}${kinds}, ${minutes} min, at most ${all.length ? words(most) : "–"}`);
  setAttribute(svg, "aria-label", `${title} of ${name} over the last ${minutes} minutes: at most ${all.length ? words(most) : "unknown"}`);
  const x = (place) => 300 - length + place;
  const shapes = [];
  if (history) {
    for (const [from, to] of runs(history.works)) shapes.push(["rect", { x: x(from), y: 0, width: to - from, height: 40 }]);
    for (const [kind, key] of lines) shapes.push(["path", { class: kind, d: line(history[key], x, top) }]);
  }
  keep(svg, shapes.map((shape, place) => [place, ...shape]), ([place, tag]) => `${tag}${place}`,
    ([, tag]) => document.createElementNS(SVG, tag),
    (node, [, , attributes]) => Object.entries(attributes).forEach(([name, value]) => setAttribute(node, name, String(value))));
}

// The stretches in which it did not work.
function runs(works) {
  const found = [];
  let from = null;
  works.forEach((is, place) => {
    if (!is && from === null) from = place;
    if (is && from !== null) {
      found.push([from, place]);
      from = null;
    }
  });
  if (from !== null) found.push([from, works.length]);
  return found;
}

function line(values, x, top) {
  let text = "";
  let isDown = false;
  values.forEach((value, place) => {
    if (!known(value)) {
      isDown = false;
      return;
    }
    const y = (39 - 38 * value / top).toFixed(1);
    text += isDown ? `L${x(place)} ${y}` : `M${x(place)} ${y}h0.5`;
    isDown = true;
  });
  return text;
}

function createEvent(event, several, isOwn = false) {
  const when = make("time", { datetime: event.time }, new Date(event.time).toLocaleTimeString([], { hour12: false }));
  const who = [several ? event.daemon : "", isOwn ? "" : event.peer, event.path].filter(Boolean).join(" ");
  const mark = event.level === "warning" ? "▲ " : "";
  return make("li", {}, when, make("span", { class: event.level }, `${mark}${who ? `${who}: ` : ""}${event.text}`));
}

// What is heard: off until somebody asks for it, since a browser is silent until it is clicked, and so is a room.
const heard = { sound: null, speaks: false, last: new Map(), silent: new Set(), isFirst: true };

// Sounds and says what the pilot is told, in the words that the ground station has; a page that has just been opened says nothing
// of what was before.
function alarm(view) {
  const news = [];
  for (const event of [...view.events].reverse()) {
    if (event.event !== "pilot-told") continue;
    const last = heard.last.get(event.daemon);
    if (last && last.run === event.run && last.seq >= event.seq) continue;
    heard.last.set(event.daemon, { run: event.run, seq: event.seq });
    news.push(event);
  }
  const silent = new Set(view.daemons.filter((daemon) => daemon.trouble).map((daemon) => daemon.name));
  for (const name of silent) {
    if (!heard.silent.has(name)) news.push({ level: "warning", peer: name, text: `the daemon ${name} does not answer` });
  }
  heard.silent = silent;
  if (heard.isFirst) {
    heard.isFirst = false;
    return;
  }
  const isMany = view.counts && Object.values(view.counts).reduce((sum, count) => sum + count, 0) > 1;
  if (news.some((event) => event.level === "warning")) sound();
  for (const event of news.slice(-3)) speak(isMany ? `${event.peer}: ${event.text}` : event.text);
}

// Two tones, low after high, a quarter of a second each.
function sound() {
  if (!heard.sound) return;
  [880, 660].forEach((frequency, place) => {
    const tone = heard.sound.createOscillator();
    const volume = heard.sound.createGain();
    const begin = heard.sound.currentTime + place * 0.25;
    tone.frequency.value = frequency;
    volume.gain.setValueAtTime(0.3, begin);
    volume.gain.exponentialRampToValueAtTime(0.001, begin + 0.25);
    tone.connect(volume).connect(heard.sound.destination);
    tone.start(begin);
    tone.stop(begin + 0.25);
  });
}

function speak(text) {
  if (!heard.speaks) return;
  const said = new SpeechSynthesisUtterance(text.replace(/\blte\b/gi, "L T E"));
  said.lang = "en";
  speechSynthesis.speak(said);
}

at("alarm").hidden = !window.AudioContext;
at("alarm").addEventListener("click", () => {
  if (heard.sound) {
    heard.sound.close();
    heard.sound = null;
  } else {
    heard.sound = new AudioContext();
    sound();
  }
  setAttribute(at("alarm"), "aria-pressed", String(Boolean(heard.sound)));
});
at("speak").hidden = !window.speechSynthesis;
at("speak").addEventListener("click", () => {
  heard.speaks = !heard.speaks;
  setAttribute(at("speak"), "aria-pressed", String(heard.speaks));
  if (heard.speaks) speak("What the pilot is told is spoken here.");
  else speechSynthesis.cancel();
});

function showLiveness() {
  const silent = performance.now() - heardAt;
  const isLate = silent > LATE_MS + 5000 || failure;
  const live = at("live");
  setText(live, isLate ? `✖ ${failure || "no answer"}: what you see is old` : "● live");
  setAttribute(live, "class", isLate ? "late" : "");
}

let typing = null;
at("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    wanted.filter = at("filter").value;
    askAnew();
  }, 150);
});
at("tools").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(input|textarea)$/i.test(event.target.tagName)) {
    event.preventDefault();
    at("filter").focus();
  }
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) askAnew();
});
setInterval(showLiveness, 500);
run();
