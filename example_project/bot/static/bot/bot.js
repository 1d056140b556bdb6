// Keeps the page live: once a second it fetches the parts that the server rendered and changes only what differs.
const POLL_MS = 1000;
const SLOWEST_MS = 10000;
const TICK_MS = 100;
const LIT_MS = 1500;

const live = document.getElementById("live");
let serverNow = Number(document.body.dataset.now);
let receivedAt = performance.now();
let pause = POLL_MS;
let timer = 0;
let known = null;

function morph(current, next) {
  if (current.isEqualNode(next)) return;
  const isRenewed = Number(next.dataset.until) > Number(current.dataset.until);
  for (const { name, value } of next.attributes) {
    if (current.getAttribute(name) !== value) current.setAttribute(name, value);
  }
  for (const { name } of [...current.attributes]) {
    if (!next.hasAttribute(name) && name !== "data-lit") current.removeAttribute(name);
  }
  if (isRenewed) current.dataset.renewed = "";
  // The text of a countdown is tick()'s.
  if (!current.dataset.until) morphChildren(current, next);
}

function morphChildren(parent, next) {
  const keyed = new Map([...parent.children].filter((child) => child.dataset.key).map((child) => [child.dataset.key, child]));
  let place = parent.firstChild;
  for (const wanted of [...next.childNodes]) {
    const match = wanted.dataset?.key ? keyed.get(wanted.dataset.key) : isAlike(place, wanted) && place;
    if (!match) {
      parent.insertBefore(wanted, place);
      continue;
    }
    if (match === place) place = place.nextSibling;
    else parent.insertBefore(match, place);
    if (match.nodeType === Node.ELEMENT_NODE) morph(match, wanted);
    else if (match.data !== wanted.data) match.data = wanted.data;
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

function isAlike(node, wanted) {
  return node?.nodeName === wanted.nodeName && !node.dataset?.key;
}

function show(name, source) {
  const part = document.querySelector(`[data-part="${name}"]`);
  const next = part.cloneNode(false);
  next.innerHTML = source;
  morph(part, next);
}

function setClock(now) {
  serverNow = Number(now);
  receivedAt = performance.now();
}

function tick() {
  const now = serverNow + performance.now() - receivedAt;
  for (const element of document.querySelectorAll("[data-until]")) {
    const left = Math.max(0, element.dataset.until - now) / 1000;
    if (element instanceof HTMLProgressElement) element.value = left;
    else if (element.dataset.lease) element.setAttribute("stroke-dasharray", `${left / element.dataset.lease} 1`);
    else element.textContent = `${left.toFixed(1)} s`;
  }
  for (const edge of document.querySelectorAll("[data-lit]")) {
    if (performance.now() > edge.dataset.lit) delete edge.dataset.lit;
  }
}

// Which moves of the diagram a job has made between two answers; it may have made several.
function moves(was, job) {
  const { node: from, attempts, failures } = was ?? { node: "pending", attempts: 0, failures: 0 };
  const hasGone = (node) => job.node === node && from !== node;
  const isClaimed = job.attempts > attempts;
  const hasFailed = job.failures > failures && job.node !== "dead";
  const taken = {
    enqueue: !was,
    requeue: from === "dead" && job.node !== "dead",
    due: from === "scheduled" && job.node !== "scheduled",
    claim: isClaimed && from !== "suspect",
    alone: isClaimed && from === "suspect",
    retry: hasFailed || hasGone("scheduled"),
    recover: from === "active" && !hasFailed && (job.node === "pending" || isClaimed),
    doubt: hasGone("suspect"),
    finish: hasGone("done"),
    die: hasGone("dead"),
  };
  return Object.keys(taken).filter((name) => taken[name]);
}

function light(jobs) {
  const taken = new Set(known ? jobs.flatMap((job) => moves(known.get(job.id), job)) : []);
  for (const edge of document.querySelectorAll("[data-edge]")) {
    if (taken.has(edge.dataset.edge)) edge.dataset.lit = performance.now() + LIT_MS;
  }
  known = new Map(jobs.map((job) => [job.id, job]));
}

async function poll() {
  try {
    const response = await fetch(document.body.dataset.state, { signal: AbortSignal.timeout(5000) });
    if (!response.ok) throw new Error(response.statusText);
    const state = await response.json();
    if (state.now && state.now < serverNow) return; // a later answer was faster
    setClock(state.now);
    Object.entries(state.parts).forEach(([name, source]) => show(name, source));
    if (state.now) light(state.jobs);
    tick();
    pause = POLL_MS;
    say("live", "Live");
  } catch {
    pause = Math.min(pause * 2, SLOWEST_MS);
    say("lost", "No answer from the server. Trying again.");
  } finally {
    schedule();
  }
}

function schedule() {
  clearTimeout(timer);
  if (document.hidden) say("paused", "Paused");
  else timer = setTimeout(poll, pause);
}

function say(status, text) {
  if (live.dataset.status === status) return;
  live.dataset.status = status;
  live.textContent = text;
}

async function send(event) {
  event.preventDefault();
  const form = event.target;
  event.submitter.ariaBusy = "true";
  try {
    const response = await fetch(form.action, { method: "POST", body: new FormData(form, event.submitter) });
    if (!response.ok) throw new Error(response.statusText);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    setClock(page.body.dataset.now);
    page.querySelectorAll("[data-part]").forEach((part) => show(part.dataset.part, part.innerHTML));
    poll();
  } catch {
    say("lost", "That did not reach the server. Reload the page and try again.");
  } finally {
    event.submitter.ariaBusy = null;
  }
}

document.addEventListener("submit", send);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) schedule();
  else poll();
});
setInterval(tick, TICK_MS);
poll();
