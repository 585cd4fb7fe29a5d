// What the page does: draws a view, follows its address, and asks a live scheduler for the next view.

const SECTIONS = [['why', 'Why they wait'], ['queues', 'Queues'], ['nodes', 'Nodes'], ['topology', 'Network'], ['gangs', 'Gangs'],
  ['evictions', 'Evictions'], ['jobs', 'Jobs'], ['events', 'Events']];
const TOKEN = 'phalanx-token';
const EVERY_MS = 2000;
const AT_MOST_MS = 30_000;

/** What the reader chose. */
const ui = {
  resource: -1, state: '', queue: '', text: '', kind: -1, sort: 'since', down: false, page: 0, gang: '', node: '', cell: null, open: new Set(),
  tree: new Map(),
};
let current = null;

/** Takes in a choice and draws the page anew. */
function redraw({ opened, to, ...choice } = {}) {
  Object.assign(ui, choice);
  if (opened) ui.open.add(opened);
  draw();
  if (to) byId(to).scrollIntoView({ block: 'start' });
}

function draw() {
  const view = current;
  const focused = document.activeElement;
  const key = focused?.getAttribute('data-key');
  const section = focused?.closest('section, header')?.id;
  if (ui.resource < 0 || ui.resource >= view.state.resources.length) ui.resource = scarcest(view.state.resources);
  if (ui.state === '') ui.state = view.gangs.waiting > 0 ? 'waiting' : view.gangs.running > 0 ? 'running' : 'all';
  if (ui.kind >= view.reasons.kinds.length) ui.kind = -1;
  document.title = view.title;
  byId('title').textContent = view.title;
  byId('run').textContent = view.summary;
  byId('summary-title').textContent = headline(view);
  drawTotals(view, ui, redraw);
  drawWhy(view, ui, redraw);
  drawQueues(view, ui, redraw);
  drawGangs(view, ui, redraw);
  drawNodes(view, ui);
  drawTopology(view, ui, redraw);
  drawEvictions(view, ui, redraw);
  drawJobs(view);
  drawEvents(view, ui, redraw);
  fill('nav', SECTIONS.filter(([id]) => !byId(id).hidden).map(([id, text]) => el('a', { href: '#' + id, 'data-key': 'nav=' + id }, text)));
  // Elements that were drawn anew have lost the focus.
  if (key && !focused.isConnected) {
    const again = [...document.querySelectorAll('[data-key]')].filter((element) => element.getAttribute('data-key') === key);
    const same = again.find((element) => element.closest('section, header')?.id === section);
    (same || again[0])?.focus({ preventScroll: true });
  }
}

/** Takes in a view. */
function take(view) {
  const place = ui.kind < 0 ? null : current.reasons.kinds[ui.kind].example;
  view.byKey = new Map(view.gangs.list.map((gang) => [keyOf(gang), gang]));
  view.onNode = new Map();
  for (const gang of view.gangs.list) {
    for (const [node, pods] of gang.nodes || []) {
      if (!view.onNode.has(node)) view.onNode.set(node, []);
      view.onNode.get(node).push([gang, pods]);
    }
  }
  if (place !== null) ui.kind = view.reasons.kinds.findIndex((kind) => kind.example === place);
  current = view;
  draw();
}

/** Shows the object that the address names. */
function follow() {
  let text;
  try {
    text = decodeURIComponent(location.hash.slice(1));
  } catch {
    return;
  }
  const named = object(text);
  if (!named || !current) return;
  if (named.kind === 'node') {
    ui.node = named.name;
    draw();
    byId('nodes').scrollIntoView({ block: 'start' });
    return;
  }
  if (named.kind === 'hypernode') {
    reveal(current, ui, named.name);
    draw();
  }
  const gang = current.byKey.get(text);
  if (gang) {
    ui.gang = text;
    if (!chosen(current, ui).includes(gang)) Object.assign(ui, { state: 'all', queue: '', text: '', kind: -1 });
    ui.page = Math.floor(chosen(current, ui).indexOf(gang) / PAGE);
    if (isLive()) askWhy(text);
    draw();
  }
  const element = byId(idOf(text));
  element?.scrollIntoView({ block: 'start' });
  element?.querySelector('a, summary')?.focus({ preventScroll: true });
}

function listen() {
  byId('filter').addEventListener('submit', (event) => event.preventDefault());
  byId('filter-state').addEventListener('change', (event) => redraw({ state: event.target.value, page: 0 }));
  byId('filter-queue').addEventListener('change', (event) => redraw({ queue: event.target.value, page: 0 }));
  byId('filter-text').addEventListener('input', (event) => redraw({ text: event.target.value, page: 0 }));
  byId('filter-kind').addEventListener('click', () => redraw({ kind: -1, page: 0 }));
  addEventListener('hashchange', follow);
  document.addEventListener('click', (event) => {
    const target = event.target instanceof Element ? event.target.closest('a') : null;
    const queue = target?.getAttribute('data-queue');
    if (queue) redraw({ queue, state: 'all', kind: -1, text: '', page: 0 });
    // A second click on an open gang closes it.
    const key = target?.getAttribute('data-key');
    if (key && key === ui.gang && target.getAttribute('aria-expanded') === 'true') {
      event.preventDefault();
      history.replaceState(null, '', '#gangs');
      redraw({ gang: '' });
    } else if (key && location.hash === target.hash && current?.byKey.has(key)) {
      follow();
    }
  });
}

/** What an answer says of why it has no view: the message of a Status, else its text. */
async function reason(answer) {
  const text = (await answer.text()).slice(0, 1000);
  try {
    return JSON.parse(text).message || text;
  } catch {
    return text;
  }
}

function say(text, bad) {
  byId('status').textContent = text;
  byId('status').classList.toggle('bad', bad);
}

/** Fetches the view again and again: more slowly where answers take long, and not while nobody looks. */
async function live() {
  let text = '';
  let asked = false;
  byId('token').addEventListener('submit', (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, byId('token-text').value.trim());
    byId('token-text').value = '';
    byId('token').hidden = true;
    asked = false;
  });
  for (;;) {
    const begun = performance.now();
    if (!document.hidden && !asked) {
      try {
        const token = sessionStorage.getItem(TOKEN);
        const answer = await fetch('api/v1/view', { headers: headers(), cache: 'no-store' });
        if (answer.status === 401 || answer.status === 403) {
          asked = true;
          const why = token ? await reason(answer) : '';
          say(answer.status === 401 ? 'The scheduler asks who you are. ' + why : 'You may not read this. ' + why, Boolean(token));
          byId('token').hidden = false;
          byId('token-text').focus();
        } else if (!answer.ok) {
          say(`The scheduler answers ${answer.status}: ${await reason(answer)}`, true);
        } else {
          const next = await answer.text();
          if (next !== text) take(JSON.parse(next));
          if (text === '') follow();
          text = next;
          say('Live, as of ' + new Date(current.now).toLocaleTimeString(), false);
          askWhy(ui.gang);
        }
      } catch (error) {
        const stale = current ? '; the page shows ' + new Date(current.now).toLocaleTimeString() : '';
        say('The scheduler does not answer (' + error.message + ')' + stale, true);
      }
    }
    const took = performance.now() - begun;
    await new Promise((resume) => setTimeout(resume, Math.min(Math.max(EVERY_MS, 4 * took), AT_MOST_MS)));
  }
}

/** The page asks a scheduler for its views; else its view stands in it. */
const isLive = () => byId('data').textContent === 'null';

function start() {
  listen();
  if (isLive()) {
    live();
  } else {
    take(JSON.parse(byId('data').textContent));
    follow();
  }
}

start();
