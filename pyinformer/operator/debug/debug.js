// The page /debug: reads /status every two seconds and draws it, the worst first.
//
// Names of objects, handlers and clusters are chosen by others: they become text nodes, never HTML.
// A value that the program does not send, because it is older, is shown as "-".
"use strict";

const SCHEMA = 1; // of /status, for which this was written
const PERIOD_MS = 2000;
const LONGEST_PERIOD_MS = 30000;
const SHARE = 10; // times as long as an answer takes: a program with very many informers is asked less often
const TIMEOUT_MS = 15000;
const FIRST_ROWS = 25; // of a table, and as many more as
const MORE_ROWS = 100;
const MAX_PROBLEMS = 50;
const MAX_NAMES = 1000; // in the list of the explain box
const MAX_ENTRIES = 300; // of a journal
const MAX_FIELDS = 400; // of one informer
const MAX_TEXT = 300; // characters of a cell
// The limits of `pyinformer doctor`, which tests compare: one program has one verdict.
const STALE_SECONDS = 300; // as HealthOptions.stale_seconds
const QUIET_SECONDS = 240; // a quiet cache that is read is proven within that
const LATE_SECONDS = 10; // an event in a mailbox, or a call of a handler, and
const VERY_LATE_SECONDS = 60;
const LATE_QUEUE_SECONDS = 60; // a key in a queue, and
const VERY_LATE_QUEUE_SECONDS = 300;
const SLOW_RECONCILE_SECONDS = 120;
const UNOWNED_SECONDS = 60; // buckets that no replica has
const MANY_FAILURES = 10; // in a row
const ORDER = { bad: 0, warn: 1, ok: 2, idle: 3 };

const byId = (id) => document.getElementById(id);

// Text

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]/gu; // nothing that is invisible, or changes the direction of writing
const escaped = (value) => value.replace(HIDDEN, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
const lines = (value) => String(value).split("\n").map(escaped).join("\n");
const list = (value) => (Array.isArray(value) ? value : []);
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function text(value, limit = MAX_TEXT) {
  if (value === undefined || value === null || value === "") return "-";
  const whole = escaped(typeof value === "object" ? JSON.stringify(value) : String(value));
  return whole.length > limit ? `${whole.slice(0, limit)}…` : whole;
}

function count(value) {
  return isNumber(value) ? value.toLocaleString("en-US", { maximumFractionDigits: 1 }) : "-";
}

function seconds(value) {
  if (!isNumber(value)) return "-";
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${value.toFixed(0)} s`;
  if (value < 7200) return `${(value / 60).toFixed(0)} min`;
  return value < 172800 ? `${(value / 3600).toFixed(1)} h` : `${(value / 86400).toFixed(1)} d`;
}

function bytes(value) {
  if (!isNumber(value)) return "-";
  if (value < 1024) return `${value} B`;
  if (value < 1048576) return `${(value / 1024).toFixed(1)} KiB`;
  return value < 1073741824 ? `${(value / 1048576).toFixed(1)} MiB` : `${(value / 1073741824).toFixed(2)} GiB`;
}

function utc(at) {
  const date = new Date(at * 1000);
  return Number.isNaN(date.getTime()) ? "-" : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

// DOM

function element(name, className = "", content = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (content) made.textContent = content;
  return made;
}

function setText(node, content) {
  if (node.textContent !== content) node.textContent = content; // a selection stays
}

function button(label, run) {
  const made = element("button", "", label);
  made.type = "button";
  made.addEventListener("click", run);
  return made;
}

// Counters of two answers, as something per second

const rates = {
  before: new Map(),
  now: new Map(),
  time: NaN,
  seconds: NaN,
  begin(time) {
    this.before = this.now;
    this.now = new Map();
    this.seconds = time - this.time;
    this.time = time;
  },
  of(id, value) {
    this.now.set(id, value);
    const difference = value - this.before.get(id);
    return difference >= 0 && this.seconds > 0 ? difference / this.seconds : undefined;
  },
};

// What is trouble, and how bad: [level, word]

function judgeInformer(one) {
  const { state, age_seconds: age } = one;
  const attempts = one.reflector?.attempts ?? 0;
  if (one.crash) return ["bad", "crashed"];
  if (state === "stopped") return ["idle", "closed"];
  if (state === "failed" || state === "forbidden") return ["bad", state];
  if (one.lineage?.is_flapping) return ["bad", "two servers"];
  if (age >= STALE_SECONDS) return ["bad", "stale"];
  if (!one.has_synced) return [attempts > 2 ? "bad" : "warn", `not synced, ${text(state)}`];
  if (state !== "watching") return [attempts > 2 ? "bad" : "warn", text(state)];
  if (one.reflector?.breaks_order) return ["warn", "out of order"];
  return age >= QUIET_SECONDS ? ["warn", "quiet"] : ["ok", "watching"];
}

function judgeHandler(one) {
  if (one.is_removed) return ["idle", "removed"];
  if (one.oldest_seconds >= VERY_LATE_SECONDS) return ["bad", "behind"];
  if (one.in_flight_seconds >= VERY_LATE_SECONDS) return ["bad", "hangs"];
  if (one.oldest_seconds >= LATE_SECONDS) return ["warn", "behind"];
  if (one.in_flight_seconds >= LATE_SECONDS) return ["warn", "slow"];
  if (one.failed) return ["warn", "has failed"];
  return one.has_synced === false ? ["warn", "not synced"] : ["ok", "well"];
}

function judgeController(one) {
  const busy = list(one.workers);
  if (one.queue?.is_shutting_down) return ["idle", "closed"];
  if (one.noop_writes?.is_storm) return ["bad", "storm"];
  if (busy.length && busy.every((worker) => worker.is_stuck)) return ["bad", "all stuck"];
  if (list(one.stuck).length) return ["bad", "stuck"];
  if (one.queue?.oldest_seconds >= VERY_LATE_QUEUE_SECONDS) return ["bad", "late"];
  if (!one.is_running || !one.has_synced) return ["warn", "not working"];
  if (list(one.hot).length) return ["warn", "hot loop"];
  if (one.failing) return ["warn", "failing"];
  return one.queue?.oldest_seconds >= LATE_QUEUE_SECONDS ? ["warn", "late"] : ["ok", "working"];
}

function judgeLease(one) {
  if (one.is_overdue) return ["bad", "overdue"];
  const role = one.is_leading ? (one.shares ? "works" : "leads") : "waits";
  if (one.last_error || one.watch_refusal) return ["warn", role];
  return one.is_leading ? ["ok", role] : ["idle", role];
}

function judgeShare(one) {
  if (one.is_overdue) return ["bad", "overdue"];
  if (one.without_owner_seconds >= UNOWNED_SECONDS) return ["warn", "without owner"];
  if (!one.is_member) return ["warn", "waits"];
  return one.last_error ? ["warn", "shares"] : ["ok", "shares"];
}

function judgeCluster(one) {
  const state = one.pool?.state;
  if (!state) return ["ok", "used"];
  if (state === "failed") return ["bad", "down"];
  return state === "open" ? ["ok", state] : ["warn", text(state)];
}

function judgeLoop(one) {
  if (one.blocked_seconds > 0) return ["bad", "blocked"];
  return one.blocked ? ["warn", "was blocked"] : ["ok", "never blocked"];
}

function whyOf(one) {
  const reflector = one.reflector ?? {};
  const parts = [one.crash, reflector.reason, reflector.last_error].filter(Boolean).map(String);
  const said = parts.filter((part, index) => !parts.slice(0, index).some((before) => before.includes(part)));
  const parted = list(one.namespaces).filter((part) => part.state !== "watching" && part.state !== one.state);
  if (parted.length) said.push(`${parted.length} of its namespaces: ${parted[0].state}`);
  return said.join("; ") || "-";
}

function prioritiesOf(queue) {
  const known = list(queue?.depth_by_priority);
  const shown = known.slice(0, 8).map(([priority, depth]) => `${priority}: ${count(depth)}`);
  return shown.join(", ") + (known.length > 8 ? ", …" : "") || "-";
}

// What the sections show of an answer: records {id, level, word, data, search}; `search` returns what the filter
// looks through

function record(id, [level, word], data, search) {
  return { id, level, word, data, search };
}

function ofControllers(status, each) {
  return list(status.controllers).flatMap((controller) =>
    list(each(controller)).map((data) => ({ controller: controller.name, ...data })),
  );
}

function keyRecord(level, data) {
  const id = `${data.controller} ${data.request}`;
  return record(id, level, data, () => `${id} ${data.error ?? ""}`);
}

const state = { is: (one) => one.word, title: "State", kind: "state" };
const explainKey = { title: "", button: "explain", run: (one) => explainRequest(one.data.request) };
const controllerName = { title: "Controller", is: ({ data }) => text(data.controller) };
const requestKey = { title: "Key", is: ({ data }) => text(data.request) };

const SECTIONS = [
  {
    title: "Informers",
    records: (status) =>
      list(status.informers).map((one) =>
        record(one.informer, judgeInformer(one), one, () => `${one.informer} ${one.state} ${whyOf(one)}`),
      ),
    columns: [
      state,
      { title: "Informer", is: ({ data }) => text(data.informer) },
      { title: "Why", is: ({ data }) => text(whyOf(data)), kind: "long" },
      { title: "Position", is: ({ data }) => text(data.position), kind: "number" },
      { title: "Age", is: ({ data }) => seconds(data.age_seconds), kind: "number" },
      { title: "Objects", is: ({ data }) => count(data.objects), kind: "number" },
      { title: "Bytes", is: ({ data }) => bytes(data.cached_bytes), kind: "number" },
      { title: "Last event", is: ({ data }) => seconds(data.last_event_seconds), kind: "number" },
      { title: "Failed", is: ({ data }) => count(data.reflector?.attempts), kind: "number" },
      { title: "Loads", is: ({ data }) => count(data.reflector?.loads), kind: "number" },
      { title: "", button: "journal", run: (one) => openDetails(one.data.informer) },
    ],
  },
  {
    title: "Handlers",
    records: (status) =>
      list(status.informers).flatMap((informer) =>
        list(informer.handlers).map((one) => {
          const id = `${one.name} ${informer.informer}`;
          return record(id, judgeHandler(one), { informer: informer.informer, ...one }, () => id);
        }),
      ),
    columns: [
      state,
      { title: "Handler", is: ({ data }) => text(data.name) },
      { title: "Informer", is: ({ data }) => text(data.informer) },
      { title: "Waiting", is: ({ data }) => count(data.depth), kind: "number" },
      { title: "Oldest", is: ({ data }) => seconds(data.oldest_seconds), kind: "number" },
      { title: "Peak", is: ({ data }) => count(data.peak), kind: "number" },
      { title: "In a call for", is: ({ data }) => text(data.in_flight_key) },
      { title: "Since", is: ({ data }) => (data.in_flight_key === null ? "-" : seconds(data.in_flight_seconds)), kind: "number" },
      { title: "Calls/s", is: ({ id, data }) => count(rates.of(`h ${id}`, data.delivered)), kind: "number" },
      { title: "Merged", is: ({ data }) => count(data.coalesced), kind: "number" },
      { title: "Failed", is: ({ data }) => count(data.failed), kind: "number" },
      { title: "Last error", is: ({ data }) => text(data.last_error), kind: "long" },
    ],
  },
  {
    title: "Controllers",
    records: (status) =>
      list(status.controllers).map((one) =>
        record(one.name, judgeController(one), one, () => `${one.name} ${one.last_error ?? ""}`),
      ),
    columns: [
      state,
      { title: "Controller", is: ({ data }) => text(data.name) },
      { title: "Waiting", is: ({ data }) => count(data.queue?.depth), kind: "number" },
      { title: "By priority", is: ({ data }) => prioritiesOf(data.queue) },
      { title: "Oldest", is: ({ data }) => seconds(data.queue?.oldest_seconds), kind: "number" },
      { title: "Delayed", is: ({ data }) => count(data.queue?.delayed), kind: "number" },
      {
        title: "Workers",
        is: ({ data }) => {
          const busy = list(data.workers).filter((worker) => worker.request !== null);
          return `${busy.length} of ${list(data.workers).length}`;
        },
        kind: "number",
      },
      {
        title: "Runs/s",
        is: ({ id, data }) => {
          const { timeout, cancelled, ...ends } = data.outcomes ?? {};
          const total = Object.values(ends).reduce((sum, one) => sum + one, 0);
          return count(rates.of(`c ${id}`, total));
        },
        kind: "number",
      },
      { title: "Errors", is: ({ data }) => count(data.outcomes?.error), kind: "number" },
      { title: "Failing", is: ({ data }) => count(data.failing), kind: "number" },
      { title: "Given up", is: ({ data }) => count(data.outcomes?.terminal), kind: "number" },
      { title: "Slowed", is: ({ data }) => count(data.hot_total), kind: "number" },
      { title: "Held", is: ({ data }) => count(data.noop_writes?.held), kind: "number" },
      { title: "Last error", is: ({ data }) => text(data.last_error), kind: "long" },
    ],
  },
  {
    title: "Workers",
    records: (status) =>
      ofControllers(status, (one) => list(one.workers).filter((worker) => worker.request !== null)).map((data) => {
        const isLate = data.seconds >= SLOW_RECONCILE_SECONDS;
        const level = data.is_stuck ? ["bad", "stuck"] : isLate ? ["warn", "slow"] : ["ok", "busy"];
        return record(`${data.controller} ${data.name}`, level, data, () => `${data.controller} ${data.request}`);
      }),
    columns: [
      state,
      controllerName,
      { title: "Worker", is: ({ data }) => text(data.name) },
      requestKey,
      { title: "For", is: ({ data }) => seconds(data.seconds), kind: "number" },
      explainKey,
    ],
  },
  {
    title: "Failing keys",
    records: (status) =>
      ofControllers(status, (one) => one.failing_keys).map((data) =>
        keyRecord([data.failures >= MANY_FAILURES ? "bad" : "warn", "failing"], data),
      ),
    columns: [
      state,
      controllerName,
      requestKey,
      { title: "In a row", is: ({ data }) => count(data.failures), kind: "number" },
      { title: "Error", is: ({ data }) => text(data.error) },
      { title: "Retry in", is: ({ data }) => seconds(data.retry_seconds), kind: "number" },
      explainKey,
    ],
  },
  {
    title: "Waiting keys",
    records: (status) => ofControllers(status, (one) => one.waiting_keys).map((data) => keyRecord(["idle", "waits"], data)),
    columns: [
      state,
      controllerName,
      requestKey,
      { title: "For", is: ({ data }) => text(data.waiting_for), kind: "long" },
      { title: "Since", is: ({ data }) => seconds(data.seconds), kind: "number" },
      explainKey,
    ],
  },
  {
    title: "Hot keys",
    records: (status) => ofControllers(status, (one) => one.hot_loops).map((data) => keyRecord(["warn", "slowed"], data)),
    columns: [
      state,
      controllerName,
      requestKey,
      { title: "Runs", is: ({ data }) => count(data.reconciles), kind: "number" },
      { title: "Inputs", is: ({ data }) => count(data.inputs), kind: "number" },
      { title: "Because of", is: ({ data }) => text(list(data.reasons).join(", ")), kind: "long" },
      explainKey,
    ],
  },
  {
    title: "Writes that change nothing",
    records: (status) =>
      ofControllers(status, (one) =>
        list(one.noop_writes?.top).map(([request, times]) => ({ request, times, isStorm: one.noop_writes.is_storm })),
      ).map((data) => keyRecord(data.isStorm ? ["bad", "storm"] : ["warn", "no change"], data)),
    columns: [
      state,
      controllerName,
      requestKey,
      { title: "In a row", is: ({ data }) => count(data.times), kind: "number" },
      explainKey,
    ],
  },
  {
    title: "Leases",
    records: (status) =>
      list(status.leader_election).map((one) => record(one.lease, judgeLease(one), one, () => `${one.lease} ${one.holder}`)),
    columns: [
      state,
      { title: "Lease", is: ({ data }) => text(data.lease) },
      { title: "This replica", is: ({ data }) => text(data.identity) },
      { title: "Holder", is: ({ data }) => text(data.holder) },
      { title: "Renewed", is: ({ data }) => seconds(data.renewed_seconds), kind: "number" },
      { title: "Transitions", is: ({ data }) => count(data.transitions), kind: "number" },
      { title: "Terms here", is: ({ data }) => count(data.terms), kind: "number" },
      { title: "Why", is: ({ data }) => text(data.last_error || data.watch_refusal), kind: "long" },
    ],
  },
  {
    title: "Sharing",
    records: (status) =>
      list(status.sharing).map((one) => record(one.table, judgeShare(one), one, () => `${one.table} ${one.member}`)),
    columns: [
      state,
      { title: "Table", is: ({ data }) => text(data.table) },
      { title: "This replica", is: ({ data }) => text(data.member) },
      { title: "Buckets", is: ({ data }) => `${count(data.buckets)} by ${text(data.by)}` },
      { title: "Open here", is: ({ data }) => count(data.open), kind: "number" },
      { title: "Catching up", is: ({ data }) => count(data.catching_up), kind: "number" },
      { title: "Draining", is: ({ data }) => count(data.draining), kind: "number" },
      { title: "Replicas", is: ({ data }) => count(data.members), kind: "number" },
      { title: "Without owner", is: ({ data }) => count(data.without_owner), kind: "number" },
      { title: "Since", is: ({ data }) => (data.without_owner ? seconds(data.without_owner_seconds) : "-"), kind: "number" },
      { title: "Why", is: ({ data }) => text(data.last_error), kind: "long" },
    ],
  },
  {
    title: "Clusters",
    records: (status) => {
      const informers = new Map();
      for (const { cluster } of list(status.informers)) informers.set(cluster, (informers.get(cluster) ?? 0) + 1);
      return list(status.clusters).map((one) =>
        record(one.name, judgeCluster(one), { ...one, informers: informers.get(one.name) ?? 0 }, () => `${one.name} ${one.server}`),
      );
    },
    columns: [
      state,
      { title: "Cluster", is: ({ data }) => text(data.name) },
      { title: "Server", is: ({ data }) => text(data.server) },
      { title: "Configured by", is: ({ data }) => text(data.source) },
      { title: "Informers", is: ({ data }) => count(data.informers), kind: "number" },
      { title: "For", is: ({ data }) => seconds(data.pool?.state_seconds), kind: "number" },
      { title: "Failed", is: ({ data }) => count(data.pool?.failed_attempts), kind: "number" },
      { title: "Retry in", is: ({ data }) => seconds(data.pool?.retry_after_seconds), kind: "number" },
      { title: "Why", is: ({ data }) => text(data.pool?.reason || data.pool?.last_error), kind: "long" },
    ],
  },
  {
    title: "Event loop",
    records: (status) => (status.watchdog ? [record("loop", judgeLoop(status.watchdog), status.watchdog, () => "event loop")] : []),
    columns: [
      state,
      { title: "Times", is: ({ data }) => count(data.blocked), kind: "number" },
      { title: "Longest", is: ({ data }) => seconds(data.longest_seconds), kind: "number" },
      { title: "Last by", is: ({ data }) => text(data.last_culprit), kind: "long" },
    ],
  },
];

class Section {
  constructor({ title, records, columns }) {
    this.title = title;
    this.read = records;
    this.columns = columns;
    this.limit = FIRST_ROWS;
    this.rows = new Map();
    this.build(title.toLowerCase().replaceAll(" ", "-"));
  }

  build(id) {
    this.root = element("section");
    this.root.id = id;
    this.root.setAttribute("aria-labelledby", `${id}-title`);
    const heading = element("h2", "", `${this.title} `);
    heading.id = `${id}-title`;
    this.summary = element("small");
    heading.append(this.summary);
    this.table = element("table");
    const head = element("tr");
    for (const { title, kind } of this.columns) {
      const cell = element("th", kind === "number" ? kind : "", title);
      cell.scope = "col";
      head.append(cell);
    }
    const top = element("thead");
    top.append(head);
    this.body = element("tbody");
    this.table.append(top, this.body);
    const scroll = element("div", "scroll");
    scroll.append(this.table);
    this.more = button("", () => {
      this.limit += MORE_ROWS;
      this.draw();
    });
    this.root.append(heading, scroll, this.more);
    byId("sections").append(this.root);
    this.link = element("a");
    this.link.href = `#${id}`;
    byId("nav").append(this.link);
    this.all = [];
    this.draw();
  }

  accept(status) {
    const seen = new Map(); // two clusters without a name may have informers of one name
    this.all = this.read(status);
    for (const one of this.all) {
      const times = (seen.get(one.id) ?? 0) + 1;
      seen.set(one.id, times);
      if (times > 1) one.id = `${one.id} (${times})`;
    }
    this.all.sort((a, b) => ORDER[a.level] - ORDER[b.level]); // otherwise as the program has them
    this.draw();
  }

  draw() {
    const wanted = byId("filter").value.trim().toLowerCase();
    const found = wanted ? this.all.filter((one) => `${one.word} ${one.search()}`.toLowerCase().includes(wanted)) : this.all;
    const shown = found.slice(0, this.limit);
    const focused = document.activeElement;
    const ids = new Set(shown.map((one) => one.id));
    for (const [id, row] of this.rows) {
      if (!ids.has(id)) {
        row.root.remove();
        this.rows.delete(id);
      }
    }
    shown.forEach((one, index) => this.place(one, index));
    if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
    this.describe(found.length, shown.length);
  }

  place(one, index) {
    let row = this.rows.get(one.id);
    if (!row) {
      row = this.newRow();
      this.rows.set(one.id, row);
    }
    row.record = one;
    if (row.root.className !== one.level) row.root.className = one.level;
    this.columns.forEach((column, at) => {
      if (!column.button) setText(row.cells[at], column.is(one));
    });
    const there = this.body.children[index];
    if (there !== row.root) this.body.insertBefore(row.root, there ?? null);
  }

  newRow() {
    const row = { root: element("tr"), cells: [], record: null };
    for (const column of this.columns) {
      const cell = element("td", column.kind ?? "");
      if (column.button) cell.append(button(column.button, () => column.run(row.record)));
      row.cells.push(cell);
      row.root.append(cell);
    }
    return row;
  }

  describe(found, shown) {
    const troubled = this.all.filter((one) => one.level === "bad" || one.level === "warn").length;
    const bad = this.all.filter((one) => one.level === "bad").length;
    const parts = [this.all.length ? count(this.all.length) : "none"];
    if (troubled) parts.push(`${count(troubled)} in trouble`);
    if (found < this.all.length) parts.push(`${count(found)} match the filter`);
    if (shown < found) parts.push(`the worst ${count(shown)} are shown`);
    setText(this.summary, parts.join(", "));
    setText(this.link, `${this.title} ${count(this.all.length)}${troubled ? ` (${count(troubled)})` : ""}`);
    this.link.className = bad ? "bad" : troubled ? "warn" : "";
    this.table.hidden = !shown;
    this.more.hidden = shown >= found;
    setText(this.more, `Show ${count(Math.min(MORE_ROWS, found - shown))} more of ${count(found)}`);
  }
}

// Reading

async function read(path) {
  const options = { cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(TIMEOUT_MS) };
  const response = await fetch(path, options);
  const body = await response.text();
  if (!response.ok) throw new Error(`${response.status}: ${body.slice(0, MAX_TEXT)}`);
  return body;
}

const page = { status: null, readAt: NaN, why: "", isPaused: false, restarts: [], names: [], detailsOf: null };

async function poll() {
  const began = performance.now();
  if (!page.isPaused && !document.hidden) await update();
  const wait = Math.max(PERIOD_MS, SHARE * (performance.now() - began));
  setTimeout(poll, Math.min(wait, LONGEST_PERIOD_MS));
}

async function update() {
  try {
    const status = JSON.parse(await read("status"));
    if (status === null || typeof status !== "object") throw new Error("what answers is not /status");
    accept(status);
    page.why = "";
    if (page.detailsOf !== null) await readDetails();
  } catch (error) {
    page.why = error.name === "TimeoutError" ? `no answer within ${TIMEOUT_MS / 1000} s` : error.message;
  }
  drawAge();
}

function accept(status) {
  const before = page.status?.program?.pid;
  const pid = status.program?.pid;
  if (before !== undefined && pid !== before) page.restarts.push(`${utc(Date.now() / 1000)}: the program was restarted`);
  page.status = status;
  page.readAt = performance.now();
  rates.begin(status.program?.time);
  drawProgram(status);
  drawProblems(status);
  for (const section of sections) section.accept(status);
  drawNames(status);
}

// Drawing

function drawAge() {
  const age = (performance.now() - page.readAt) / 1000;
  const isKnown = Number.isFinite(age);
  setText(byId("age"), `${isKnown ? `As of ${seconds(age)} ago` : "No answer yet"}${page.isPaused ? ", paused" : ""}.`);
  const shown = isKnown ? `What is shown is of ${utc(Date.now() / 1000 - age)}.` : "";
  setText(byId("lost"), page.why ? `The program does not answer: ${escaped(page.why)}. ${shown}` : "");
  document.body.classList.toggle("stale", Boolean(page.why));
  document.title = page.why ? "pyinformer: no answer" : document.title;
}

function drawProgram(status) {
  const program = status.program ?? {};
  setText(
    byId("program"),
    `pyinformer ${text(program.pyinformer)}, Python ${text(program.python)}, pid ${text(program.pid)}, up ${seconds(program.uptime_seconds)}`,
  );
  const verdicts = ["live", "ready"].map((name) => {
    const isOk = status[name]?.is_ok;
    return element("span", isOk === undefined ? "idle" : isOk ? "ok" : "bad", `${name}: ${isOk === undefined ? "-" : isOk ? "yes" : "no"} `);
  });
  byId("verdicts").replaceChildren(...verdicts);
  document.title = `pyinformer: ${status.live?.is_ok === false ? "not alive" : status.ready?.is_ok === false ? "not ready" : "ready"}`;
}

function drawProblems(status) {
  const found = [];
  for (const name of ["live", "ready"]) {
    for (const reason of list(status[name]?.reasons)) found.push(["bad", `not ${name}: ${reason}`]);
  }
  const notes = new Set(["live", "ready"].flatMap((name) => list(status[name]?.notes)));
  for (const note of notes) found.push(["warn", note]);
  for (const name of list(status.abandoned_handlers)) found.push(["warn", `left behind, still running: ${name}`]);
  for (const restart of page.restarts.slice(-3)) found.push(["warn", restart]);
  if (status.schema !== SCHEMA) found.push(["warn", `/status has schema ${text(status.schema)}; this page knows ${SCHEMA}`]);
  const shown = found.slice(0, MAX_PROBLEMS).map(([level, words]) => element("li", level, text(words, 1000)));
  if (found.length > MAX_PROBLEMS) shown.push(element("li", "warn", `and ${count(found.length - MAX_PROBLEMS)} more`));
  byId("problems").replaceChildren(...shown);
}

function drawNames(status) {
  const names = [...new Set(list(status.informers).map((one) => String(one.informer)))].slice(0, MAX_NAMES);
  if (page.names.length === names.length && names.every((name, at) => name === page.names[at])) return;
  page.names = names;
  byId("informer-names").replaceChildren(
    ...names.map((name) => {
      const option = element("option");
      option.value = name;
      return option;
    }),
  );
}

// One informer: its journal and all of its record

async function openDetails(name) {
  page.detailsOf = name;
  byId("details-section").hidden = false;
  setText(byId("details-title"), `Journal of ${text(name)}`);
  setText(byId("journal"), "…");
  try {
    await readDetails();
  } catch (error) {
    setText(byId("journal"), escaped(error.message));
  }
  byId("details-section").scrollIntoView();
  byId("details-close").focus({ preventScroll: true });
}

async function readDetails() {
  const name = page.detailsOf;
  const found = list(JSON.parse(await read(`status?informer=${encodeURIComponent(name)}`)).informers);
  if (name !== page.detailsOf) return;
  const entries = found.flatMap((one) => list(one.journal)).sort((a, b) => b.at - a.at);
  const shown = entries.slice(0, MAX_ENTRIES).map((one) => `${utc(one.at)}  ${text(one.what, 2100)}`);
  setText(byId("journal"), shown.join("\n") || "nothing yet");
  drawFields(found.flatMap((one) => [...fieldsOf(one, "")]).slice(0, MAX_FIELDS));
}

function* fieldsOf(value, path) {
  if (path === "journal") return;
  if (value === null || typeof value !== "object") {
    yield [path, text(value)];
    return;
  }
  for (const [name, one] of Object.entries(value)) yield* fieldsOf(one, path ? `${path}.${name}` : name);
}

function drawFields(fields) {
  const box = byId("fields");
  if (box.children.length !== 2 * fields.length) {
    box.replaceChildren(...fields.flatMap(() => [element("dt"), element("dd")]));
  }
  fields.forEach(([name, value], at) => {
    setText(box.children[2 * at], escaped(name));
    setText(box.children[2 * at + 1], value);
  });
}

// The box that explains a key

function explainRequest(request) {
  const clusters = list(page.status?.clusters).map((one) => one.name);
  const [cluster] = clusters.filter((name) => name && request.startsWith(`${name}:`));
  byId("explain-key").value = cluster ? request.slice(cluster.length + 1) : request;
  byId("explain-informer").value = "";
  byId("explain-section").scrollIntoView();
  explain();
}

async function explain() {
  const query = new URLSearchParams({ key: byId("explain-key").value.trim() });
  const informer = byId("explain-informer").value.trim();
  if (informer) query.set("informer", informer);
  const box = byId("explanation");
  box.hidden = false;
  try {
    setText(box, lines(await read(`explain?${query}`)));
  } catch (error) {
    setText(box, lines(error.message));
  }
}

// Begin

const sections = SECTIONS.map((one) => new Section(one));

byId("explain").addEventListener("submit", (event) => {
  event.preventDefault();
  explain();
});
byId("filter").addEventListener("input", () => {
  for (const section of sections) section.draw();
});
byId("pause").addEventListener("click", ({ currentTarget }) => {
  page.isPaused = !page.isPaused;
  currentTarget.setAttribute("aria-pressed", String(page.isPaused));
  drawAge();
});
byId("details-close").addEventListener("click", () => {
  page.detailsOf = null;
  byId("details-section").hidden = true;
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    byId("filter").focus();
  } else if (event.key === "Escape" && event.target === byId("filter")) {
    byId("filter").value = "";
    for (const section of sections) section.draw();
  }
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !page.isPaused) update();
});
setInterval(drawAge, 1000);
poll();
