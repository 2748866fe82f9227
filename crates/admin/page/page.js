// The web page of a server: asks for figures once a second while it is looked at, and draws them. All texts of the
// server are put in as text, never as markup. Nothing is kept between two visits.
"use strict";

const SECOND_MS = 1000;
const $ = (id) => document.getElementById(id);

// make(tag, attributes, children...): an element
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// scaled(value, steps): a number with three digits and the unit that fits
function scaled(value, base, units) {
  let unit = 0;
  while (value >= base && unit < units.length - 1) { value /= base; unit += 1; }
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits) + (units[unit] ? " " + units[unit] : "");
}
const count = (value) => value === 0 ? "0" : value < 10000 ? value.toFixed(value < 10 && !Number.isInteger(value) ? 1 : 0)
  : scaled(value, 1000, ["", "k", "M", "G", "T"]);
const plural = (value, noun) => count(value) + " " + noun + (value === 1 ? "" : "s");
const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
const rate = (value) => bytes(value) + "/s";
const time = (ns) => ns === null || ns === undefined ? "" : scaled(ns / 1000, 1000, ["µs", "ms", "s"]);
function age(seconds) {
  if (seconds < 120) return seconds.toFixed(0) + " s";
  if (seconds < 7200) return (seconds / 60).toFixed(0) + " min";
  return seconds < 172800 ? (seconds / 3600).toFixed(0) + " h" : (seconds / 86400).toFixed(0) + " days";
}

// Columns: heading, the row's value, how it is shown; without the last, it is a text.
const RATES = {
  calls: ["Calls/s", (row) => row.calls_per_s, count],
  errors: ["Errors/s", (row) => row.errors_per_s, (value) => value === null ? "" : count(value)],
  in: ["In", (row) => row.in_bytes_per_s, rate],
  out: ["Out", (row) => row.out_bytes_per_s, rate],
  p50: ["p50", (row) => row.p50_ns, time],
  p99: ["p99", (row) => row.p99_ns, time],
};
const name = (heading) => [heading, (row) => row.name];
const note = (heading) => [heading, (row) => row.note];
const range = (row) => row.start === 0 && row.end === undefined ? "all" : row.start + " to " + (row.end ?? "the end");

// The views besides the overview. `from`: a list of the live figures; `ask`: lists of their own.
const VIEWS = {
  clients: { title: "Clients", from: "clients", about: "Who calls, the busiest first.",
    columns: [name("Client"), RATES.calls, RATES.in, RATES.out, note("Connections and mounts")] },
  exports: { title: "Exports", from: "exports", about: "Data that clients write (in) and read (out).",
    columns: [name("Path"), RATES.calls, RATES.errors, RATES.in, RATES.out, RATES.p50, RATES.p99, note("Note")],
    ask: [["exports", "Who may mount", [["Path", (row) => row.path], ["Directory", (row) => row.directory], ["State", (row) => row.state],
      ["Clients and options", (row) => row.rules.map((rule) => rule.clients + " (" + rule.options + ")").join("; ")],
      ["Last refusal", (row) => row.last_refusal ?? ""]]],
    ["refusals", "Refused in the last hour", [["Client", (row) => row.client], ["Path", (row) => row.path],
      ["Times", (row) => row.count, count], ["Ago", (row) => row.age_ms, (ms) => age(ms / 1000)], ["Reason", (row) => row.reason]]]] },
  operations: { title: "Operations", from: "operations", about: "Each procedure: how often, how long.",
    columns: [name("Procedure"), RATES.calls, RATES.errors, RATES.in, RATES.out, RATES.p50, RATES.p99, note("Since the start")] },
  connections: { title: "Connections", from: "connections", conns: true,
    about: "TCP connections, watched for a quarter of a second of each second: what limits each, and a setting that would raise the limit.",
    columns: [name("Client's end"), RATES.calls, RATES.in, RATES.out, note("Limit")] },
  locks: { title: "Locks and opens", about: "What clients hold on files.",
    ask: [["locks", "Locks", [["File", (row) => row.file], ["Client", (row) => row.client + " " + row.address], ["Kind", (row) => row.kind],
      ["Mode", (row) => row.mode], ["Bytes", range], ["Waiting", (row) => row.waiting_ms, (ms) => ms === undefined ? "" : age(ms / 1000)]]],
    ["opens", "Opens of version 4", [["File", (row) => row.file], ["Client", (row) => row.client + " " + row.address],
      ["For", (row) => row.access], ["Denies", (row) => row.deny]]],
    ["sessions", "Sessions of version 4", [["Session", (row) => row.id || "version 4.0"], ["Client", (row) => row.client + " " + row.address],
      ["State", (row) => row.state], ["Slots", (row) => row.slots, count], ["Running", (row) => row.slots_running, count],
      ["Silent", (row) => row.silent_ms, (ms) => age(ms / 1000)]]]] },
  pools: { title: "Pools", from: "pools", about: "Threads that process calls.", columns: [name("Pool"), RATES.calls, note("Threads and connections")] },
  calls: { title: "Slow calls", from: "calls", about: "Calls that slept in a file system in the last ten seconds, the slowest first: for how long, client, system call and file.",
    columns: [name("Call"), note("Age, client, what it waits for")] },
  reports: { title: "Reports", about: "Measurements by bowline bench, in the directory that the option --reports names.",
    ask: [["reports", "Reports, the latest first", [["Report", (row) => row.name], ["Written", (row) => row.age_s, (s) => age(s) + " ago"],
      ["Results", (row) => row.bytes, bytes]]]] },
  settings: { title: "Settings", about: "Most change at once, without a restart. A change is in force until the server ends.",
    ask: [["settings", "Settings in force", [["Setting", (row) => row.key], ["Value", (row) => row.value], ["Change", (row) => row],
      ["When", (row) => row.changes], ["What", (row) => row.about]]]] },
};

let now = "overview";
let paused = false;
let sorting = null;
let charts = [];
let last = null;
let asked = {};

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(answer.status + " " + (await answer.text()));
  return answer.json();
}

// ---- tables ----

function table(caption, columns, rows, hidden, id) {
  const word = columns.map(([, , shown]) => shown === undefined);
  const order = sorting !== null && sorting.id === id ? sorting : null;
  if (order !== null) {
    const value = columns[order.column][1];
    rows = [...rows].sort((a, b) => {
      const [x, y] = [value(a) ?? -1, value(b) ?? -1];
      return order.sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
    });
  }
  const heading = ([text], column) => {
    const sort = order?.column === column ? (order.sign > 0 ? "ascending" : "descending") : null;
    const turn = () => {
      sorting = { id, column, sign: sort === "descending" ? 1 : -1 };
      draw();
      document.querySelector(`[data-table="${id}"] th[aria-sort] button`)?.focus();
    };
    return make("th", { scope: "col", class: word[column] ? "word" : null, "aria-sort": sort }, make("button", { type: "button", onclick: turn }, text));
  };
  const body = rows.map((row) => make("tr", {}, ...columns.map(([text, value, shown], column) => {
    const content = value(row);
    if (text === "Change") return make("td", {}, ...changer(content));
    const cell = text === "Report" ? make("a", { href: "/reports/" + encodeURIComponent(content) }, content)
      : shown ? shown(content) : content ?? "";
    if (column === 0) return make("th", { scope: "row" }, cell);
    return make("td", { class: word[column] ? "word" : null, "data-name": text }, cell);
  })));
  if (rows.length === 0) body.push(make("tr", {}, make("td", { class: "none", colspan: columns.length }, "none")));
  const more = hidden > 0 ? ` (${count(hidden)} more are not shown)` : "";
  return make("div", { class: "scroll cards", role: "region", tabindex: "0", "aria-label": caption, "data-table": id },
    make("table", {}, make("caption", {}, caption + more), make("thead", {}, make("tr", {}, ...columns.map(heading))), make("tbody", {}, ...body)));
}

// Where settings are changed, if not here. A token is not sent where others could read it: over http, other than on the
// server's machine.
async function elsewhere() {
  const { has_tls } = await ask("/api/access");
  const sealed = new URL(location.href);
  sealed.protocol = "https:";
  $("elsewhere").replaceChildren("This page came unencrypted, so settings are not changed on it. ", ...has_tls
    ? ["Open it over TLS: ", make("a", { href: sealed.href }, sealed.href)]
    : ["They are changed on the server's machine (ssh -L forwards the port), or over TLS, for which the server needs a certificate (--tls-cert)."]);
}

// The form that changes a setting; nothing without a token, or if it needs a restart.
function changer(row) {
  if (!row.live || $("token").value === "") return [];
  const input = make("input", { "aria-label": "new value of " + row.key, value: row.value });
  const submit = async (event) => {
    event.preventDefault();
    const answer = await fetch("/api/set", { method: "POST", headers: { Authorization: "Bearer " + $("token").value },
      body: JSON.stringify({ key: row.key, value: input.value }) });
    const text = await answer.text();
    const done = answer.ok ? JSON.parse(text) : null;
    $("said").textContent = done ? [`${done.key}: ${done.value} (was ${done.before})`, ...done.notes].join("; ") : "Refused: " + text;
    if (done) await lists();
  };
  return [make("form", { onsubmit: submit }, input, make("button", { type: "submit" }, "Set"))];
}

// ---- overview ----

const pair = (term, value) => make("div", {}, make("dt", {}, term), make("dd", {}, value));

function overview({ rates }) {
  const { total, server } = rates;
  $("figures").replaceChildren(
    pair("Calls", count(total.calls_per_s) + "/s"), pair("Errors", count(total.errors_per_s ?? 0) + "/s"), pair("In", rate(total.in_bytes_per_s)),
    pair("Out", rate(total.out_bytes_per_s)), pair("Latency, half of the calls", time(total.p50_ns) || "–"),
    pair("Latency, 99 of 100", time(total.p99_ns) || "–"), pair("Connections", count(server.connections)),
    pair("Memory", bytes(server.memory_bytes)));
  const waits = server.waits;
  $("waits").replaceChildren(
    pair("Disk", waits.disk_calls === 0 ? "no call" : `${plural(waits.disk_calls, "call")}, oldest ${time(waits.disk_oldest_ms * 1e6)}`),
    pair("Share of an export", plural(waits.share_calls, "call")), pair("A thread", count(waits.threads)),
    pair("The network or the client", plural(waits.network_connections, "connection")),
    pair("Lock of another client", plural(waits.lock_requests, "request")));
}

// What a chart shows at least, in seconds; `least` is the largest value that it shows at least.
const SHOWN_S = 60;
const CHARTS = [
  { title: "Calls per second", format: count, least: 4, series: [["calls", "calls_per_s", "a"], ["errors", "errors_per_s", "b"]] },
  { title: "Bytes per second", format: rate, least: 1024, steps: Array.from({ length: 45 }, (_, power) => 2 ** power), series: [["out", "out_bytes_per_s", "a"], ["in", "in_bytes_per_s", "b"]] },
  { title: "Latency", format: (value) => time(value), least: 4000, series: [["half of the calls", "p50_ns", "a"], ["99 of 100", "p99_ns", "b"]] },
];

function makeCharts() {
  const colour = (of) => getComputedStyle(document.documentElement).getPropertyValue("--" + of).trim();
  charts.forEach(({ plot }) => plot.destroy());
  $("charts").replaceChildren();
  charts = CHARTS.map((chart) => {
    const canvas = make("div", { role: "img" });
    const caption = make("figcaption", {});
    const figure = make("figure", {}, make("h3", {}, chart.title), canvas, caption);
    $("charts").append(figure);
    return { ...chart, canvas, caption, figure };
  }).map((chart) => {
    const axis = { stroke: colour("dim"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1 }, font: "12px system-ui" };
    const past = (values) => values.map((value) => value === 0 ? "now" : value + " s");
    const options = {
      width: chart.figure.clientWidth, height: 170, legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false, range: (_, low) => [Math.min(low ?? 0, -SHOWN_S), 0] }, y: { range: (_, low, high) => [0, Math.max((high ?? 0) * 1.1, chart.least)] } },
      axes: [{ ...axis, values: (_, values) => past(values), size: 28 },
        { ...axis, values: (_, values) => values.map(chart.format), size: 78, incrs: chart.steps }],
      series: [{}, ...chart.series.map(([, , of]) => ({ stroke: colour(of), width: 2, points: { show: false }, dash: of === "b" ? [6, 4] : [] }))],
    };
    return { ...chart, plot: new uPlot(options, [[], ...chart.series.map(() => [])], chart.canvas) };
  });
}

function drawCharts({ at_ms, points }) {
  for (const { series, format, title, plot, canvas, caption } of charts) {
    plot.setData([points.map((point) => (point.at_ms - at_ms) / 1000), ...series.map(([, field]) => points.map((point) => point[field]))]);
    const latest = points[points.length - 1];
    const texts = series.map(([text, field]) => text + " " + ((latest && format(latest[field])) || "–"));
    canvas.setAttribute("aria-label", `${title} of the last ${points.length} seconds; now: ${texts.join(", ")}`);
    caption.replaceChildren(...series.flatMap(([, , of], index) => [make("span", { class: "key " + of }), texts[index] + " "]));
  }
}

// ---- the page ----

// Whether somebody is in a table's form, which a new table would take away.
const typing = () => $("tables").contains(document.activeElement) && document.activeElement.tagName === "INPUT";

function draw() {
  if (last === null) return;
  const { rates, hidden } = last;
  const { server } = rates;
  $("server").textContent = `${server.version}, up ${age(server.uptime_s)}, ${count(server.worker_threads)} threads`;
  const problems = server.problems.map((text) => make("p", {}, text));
  if ($("problems").textContent !== server.problems.join("")) $("problems").replaceChildren(...problems);
  if (now === "overview") {
    overview(last);
    drawCharts(last);
    return;
  }
  const view = VIEWS[now];
  // connections come with the next figures
  if (typing() || (view.conns && !last.conns)) return;
  const focused = document.activeElement?.closest("[data-table]")?.dataset.table;
  const heading = [...document.querySelectorAll("th button")].indexOf(document.activeElement);
  const list = (view.from ? [table(view.title, view.columns, rates[view.from], hidden[view.from] ?? 0, view.from)] : [])
    .concat((view.ask ?? []).filter(([path]) => asked[path]).map(([path, title, columns]) => {
      const { rows, count: all } = asked[path];
      const shown = columns.filter(([text]) => text !== "Change" || $("token").value !== "");
      return table(title, shown, rows, all - rows.length, path);
    }));
  const places = [...$("tables").children].map((region) => region.scrollLeft);
  $("tables").replaceChildren(...list.flatMap((element, index) => index === 0 ? [element] : [make("h3", { "aria-hidden": "true" }), element]));
  [...$("tables").children].forEach((region, index) => { region.scrollLeft = places[index] ?? 0; });
  // what had the focus is a new element now
  if (heading >= 0) document.querySelectorAll("th button")[heading]?.focus();
  else if (focused) document.querySelector(`[data-table="${focused}"]`)?.focus();
}

async function lists() {
  const wanted = (VIEWS[now]?.ask ?? []).map(([path]) => path);
  const answers = await Promise.all(wanted.map((path) => ask("/api/" + path)));
  wanted.forEach((path, index) => { asked[path] = answers[index]; });
  draw();
}

async function tick() {
  try {
    if (!paused && !document.hidden) {
      const conns = VIEWS[now]?.conns === true;
      last = { ...await ask("/api/live" + (conns ? "?conns" : "")), conns };
      if (last.version !== 1) throw new Error("another version of the server: load the page again");
      draw();
      await lists();
    }
  } catch (error) {
    $("server").textContent = "No answer: " + error.message;
  }
  setTimeout(tick, SECOND_MS);
}

function choose(focus) {
  const wanted = location.hash.slice(1);
  now = wanted in VIEWS ? wanted : "overview";
  const view = VIEWS[now];
  asked = {};
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === "#" + now) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("overview").hidden = view !== undefined;
  $("view").hidden = view === undefined;
  $("right").hidden = now !== "settings" || !isSecureContext;
  $("elsewhere").hidden = now !== "settings" || isSecureContext;
  if (!$("elsewhere").hidden) elsewhere().catch(() => {});
  document.title = (view?.title ?? "Overview") + " – Bowline";
  $("view-title").textContent = view?.title ?? "";
  $("about").textContent = view?.about ?? "";
  $("tables").replaceChildren();
  draw();
  lists().catch(() => {});
  if (focus && view) $("view-title").focus();
}

$("host").textContent = location.hostname;
$("views").append(...[["overview", { title: "Overview" }], ...Object.entries(VIEWS)].map(([id, { title }]) =>
  make("li", {}, make("a", { href: "#" + id }, title))));
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Go on" : "Pause";
});
// not at its change event, which comes while another input gets the focus
$("token").addEventListener("input", draw);
$("right").addEventListener("submit", (event) => { event.preventDefault(); draw(); });
window.addEventListener("hashchange", () => choose(true));
window.addEventListener("resize", () => charts.forEach(({ plot, figure }) => plot.setSize({ width: figure.clientWidth, height: 170 })));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { makeCharts(); draw(); });
makeCharts();
choose(false);
tick();
