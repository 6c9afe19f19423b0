"use strict";
// Asks the proxy every two seconds what it has done, and shows it. Everything is set as text, never as markup.

const EVERY = 2000;
const MODES = { pruning: "pruning", shadow: "shadow: changes nothing", off: "off: kill switch" };
const ENDINGS = { client_gone: "client gone", upstream_broke: "upstream broke off", failed: "failed" };

const at = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const count = (value) => (value === null || value === undefined ? "–" : number.format(value));
const words = (name) => name.replaceAll("_", " ");
const share = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "–");

function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  return milliseconds < 1000 ? `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

const digits = (value) => value.toFixed(Math.abs(value) < 1 ? 4 : 2);
const amount = (value, currency) => `${digits(value)} ${currency}`;

function uptime(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

function cell(text, kind) {
  const found = document.createElement("td");
  found.textContent = text;
  if (kind) found.className = kind;
  return found;
}

function row(...cells) {
  const found = document.createElement("tr");
  found.append(...cells);
  return found;
}

function fill(id, rows) {
  at(id).hidden = rows.length === 0;
  at(`${id}-empty`).hidden = rows.length > 0;
  at(id).querySelector("tbody").replaceChildren(...rows);
}

function latency(id, found) {
  at(id).textContent = found ? duration(found.p50) : "–";
  at(`${id}-note`).textContent = found ? `p90 ${duration(found.p90)}, p99 ${duration(found.p99)}` : "";
}

function meter(value, total, kind) {
  const bar = document.createElement("progress");
  bar.max = total;
  bar.value = value;
  bar.className = kind;
  const found = cell("", "meter");
  found.setAttribute("aria-hidden", "true");
  found.append(bar);
  return found;
}

function reasonRow([reason, requests], total) {
  const kind = reason === "pruned" ? "pruned" : "";
  return row(cell(words(reason), kind), cell(count(requests), "number"), cell(share(requests, total), "number"), meter(requests, total, kind));
}

function outcome(each) {
  if (each.ending !== "completed") return cell(words(each.refusal || ENDINGS[each.ending] || each.ending), "failed");
  const would = each.shadow_reason ? `: ${words(each.shadow_reason)}` : "";
  const recalled = each.recalled && each.recalled.calls ? ", recalled" : "";
  return cell(words(each.reason || "–") + would + recalled, each.reason === "pruned" ? "pruned" : "");
}

function money(state) {
  const { paid, without_pruning: without } = state.money;
  const unpriced = state.unpriced ? `; ${count(state.unpriced)} ${state.unpriced === 1 ? "answer" : "answers"} without usage or known prices` : "";
  const tool = state.recall ? "; the tool for recalls is in both" : "";
  at("money").textContent = paid === undefined ? "–" : amount(without - paid, state.currency);
  at("money-note").textContent = paid === undefined
    ? state.unpriced ? "no usage, or no known prices" : ""
    : `${amount(paid, state.currency)} instead of ${amount(without, state.currency)}${unpriced}${tool}`;
  at("usage").textContent = Object.keys(state.usage).length
    ? `The upstream counted ${count(state.usage.input)} tokens of input, ${count(state.usage.cached)} read from its cache, ` +
      `${count(state.usage.cache_creation)} written to it, ${count(state.usage.output)} of output.`
    : "";
}

function late(state) {
  at("late").hidden = !state.mostly_late;
  if (!state.mostly_late) return;
  at("late").textContent =
    `Most decisions are late: ${count(state.mostly_late.late)} of the last ${count(state.mostly_late.of)} were not made within ` +
    `${duration(state.deadline_milliseconds)} and pruned nothing. ` +
    (state.policy.kind === "light"
      ? "A light policy decides in milliseconds, so other work is using the processor; drsr doctor says how long a decision takes now."
      : "Use a light policy, a GPU or a longer --deadline-ms; drsr doctor says which.");
}

function compared(state) {
  const { outside = 0, inside = 0 } = state.compared;
  at("compared").textContent = outside
    ? `${count(outside)} of ${count(outside + inside)} requests that were read are unlike what the policy was calibrated on; ` +
      "its published rates do not cover them."
    : "";
}

function recentRow(each) {
  const read = each.tokens_before !== null;
  const saved = each.shadow_saved ? `(${count(each.shadow_saved)})` : read ? count(each.tokens_saved) : "–";
  return row(
    cell(new Date(1000 * each.time).toLocaleTimeString("en-GB")),
    cell(words(each.endpoint)),
    cell(each.status === null ? "–" : String(each.status), each.status >= 400 ? "number failed" : "number"),
    outcome(each),
    cell(count(each.tokens_before), "number"),
    cell(saved, "number"),
    cell(each.bill ? digits(each.bill.paid) : "–", "number"),
    cell(duration(each.decision_milliseconds), "number"),
    cell(duration(each.upstream_milliseconds), "number"),
    cell(each.decision || "–", "id"),
  );
}

function show(state) {
  at("mode").textContent = MODES[state.mode];
  at("mode").className = `badge ${state.mode}`;
  const sessions = state.session_mode ? `, ${count(state.sessions)} conversation${state.sessions === 1 ? "" : "s"} remembered` : "";
  const { kind, version, backbone } = state.policy;
  const policy = kind === "light" ? `light policy ${version}` : `policy ${version} with ${backbone}`;
  at("about").textContent =
    `to ${state.upstream}, ${policy}${sessions}, ` +
    `drsr ${state.drsr}, up ${uptime(state.uptime_seconds)}`;

  const reasons = Object.entries(state.reasons);
  const asked = reasons.reduce((sum, [, requests]) => sum + requests, 0);
  const pruned = state.reasons.pruned || 0;
  at("requests").textContent = count(state.requests);
  const failed = state.failed ? `, ${count(state.failed)} answered with an error` : "";
  at("requests-note").textContent = `${count(state.in_flight)} on their way, ${count(state.waiting)} waiting${failed}`;
  at("pruned").textContent = count(pruned);
  at("pruned-note").textContent = state.eligible ? `${share(pruned, state.eligible)} of ${count(state.eligible)} that could be pruned` : "";
  at("saved").textContent = count(state.tokens_saved);
  at("saved-note").textContent = state.shadow_tokens_saved
    ? `${count(state.shadow_tokens_saved)} would be saved, of ${count(state.tokens)}`
    : state.tokens ? `${share(state.tokens_saved, state.tokens)} of ${count(state.tokens)}` : "";
  money(state);
  late(state);
  compared(state);
  latency("decision", state.decision_milliseconds);
  latency("upstream", state.upstream_milliseconds);

  at("paid").textContent = `paid, ${state.currency}`;
  fill("reasons", reasons.map((each) => reasonRow(each, asked)));
  fill("recent", state.recent.map(recentRow));
}

async function refresh() {
  try {
    const answer = await fetch("drsr/state.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
    at("trouble").hidden = true;
  } catch (error) {
    at("trouble").textContent = "The proxy does not answer; the numbers below are old.";
    at("trouble").hidden = false;
  }
  setTimeout(refresh, EVERY);
}

refresh();
