// Resources, queues and nodes.

/** The most nodes that are drawn with their names. */
const CARDS_MAX = 24;
/** The most names of nodes that are drawn at once. */
const ROWS_MAX = 200;
/** The queues that are drawn at first. */
const QUEUES = 20;

function drawTotals(view, ui, redraw) {
  const { resources, nodes } = view.state;
  const tiles = resources.map((resource, at) => {
    const { unit, used, allocatable, name } = resource;
    const pressed = String(at === ui.resource);
    const choose = () => redraw({ resource: at });
    return el('button', { type: 'button', class: 'total', 'aria-pressed': pressed, onclick: choose, 'data-key': 'total=' + name },
      el('span', {}, name),
      el('b', {}, percent(used, allocatable)),
      el('small', {}, amount(unit, used) + ' of ' + amount(unit, allocatable) + ' used'),
      bar(used, allocatable));
  });
  fill('totals', tiles);
  const idle = view.begin !== undefined && view.state.at < view.now;
  byId('moment').hidden = !idle;
  fill('moment', idle ? 'Nothing is allocated any more. Resources, queues and nodes are shown ' + moment(view.state.at, view) +
    ', when the most was allocated.' : '');
  return nodes;
}

const QUEUE_COLUMNS = [
  ['Queue', { class: 'name' }], ['Allocated, requested, deserved', { class: 'queue-bar' }], ['Share', { class: 'num' }],
  ['Allocated', { class: 'num' }], ['Requested', { class: 'num' }], ['Deserved', { class: 'num' }],
  ['Guarantee', { class: 'num' }], ['Limit', { class: 'num' }], ['Weight', { class: 'num' }], ['Waiting', { class: 'num' }],
];

function drawQueues(view, ui, redraw) {
  const at = ui.resource;
  const resource = view.state.resources[at];
  const all = tree(view.state.queues, at);
  const quiet = ({ queue }) => !queue.problem && queue.waiting.pods === 0 && queue.requested.every((amount) => amount === 0);
  const waiting = waitingIn(view.state.queues);
  const crowded = all.length > QUEUES && !ui.open.has('queues');
  const rows = crowded ? foremost(all.filter((row) => !quiet(row))) : all;
  const name = resource ? resource.name : 'resources';
  byId('queues-title').textContent = 'Queues: ' + name;
  byId('queues-share').hidden = all.every(({ queue }) => queue.share === undefined);
  const columns = QUEUE_COLUMNS.filter(([title]) => title !== 'Guarantee' || view.state.queues.some((queue) => queue.guarantee[at] > 0));
  head('queues-table', columns);
  byId('queues-table').classList.add('flat');
  const most = [];
  for (const { queue, depth } of all) {
    most[depth] = Math.max(1, most[depth] || 0, queue.requested[at], queue.allocated[at], queue.deserved[at] || 0);
  }
  fill('queues-legend', swatch('', 'allocated'), swatch('over', 'allocated above what it deserves'), swatch('asked', 'requested and waiting'),
    swatch('tick', 'deserved'), most.length > 1 ? '. Bars of one level of the tree have one scale.' : '');
  byId('queues-table').tBodies[0].replaceChildren(...rows.map((each) => queueRow(view, at, most[each.depth], columns, waiting, each)));
  fill('queues-problems', view.state.queues.filter((queue) => queue.problem).slice(0, QUEUES)
    .map((queue) => el('p', { class: 'problem' }, el('b', {}, 'Queue ' + queue.name), ': ' + queue.problem)));
  const hidden = all.length - rows.length + view.state.queuesLeftOut;
  const more = el('button', { type: 'button', 'data-key': 'queues-all', onclick: () => redraw({ opened: 'queues' }) }, 'Show them');
  fill('queues-note', hidden > 0 ? [counted(hidden, 'queue') + ', with less waiting than these or nothing, not shown. ', crowded ? more : ''] : '');
  byId('queues').hidden = all.length === 0;
}

/** The rows of queues with the most waiting pods, and of the queues above them, in the order of the tree. */
function foremost(rows) {
  const most = [...rows].sort((a, b) => b.queue.waiting.pods - a.queue.waiting.pods).slice(0, QUEUES);
  const shown = new Set(most.map(({ queue }) => queue.name));
  const byName = new Map(rows.map(({ queue }) => [queue.name, queue]));
  for (const { queue } of most) {
    for (let above = queue.parent; above && !shown.has(above); above = byName.get(above)?.parent) shown.add(above);
  }
  return rows.filter(({ queue }) => shown.has(queue.name));
}

function swatch(kind, text) {
  return [el('span', { class: 'swatch ' + kind, 'aria-hidden': 'true' }), text];
}

function queueRow(view, at, most, columns, waiting, { queue, depth }) {
  const unit = view.state.resources[at] ? view.state.resources[at].unit : 'count';
  const text = (value) => value === null || value === undefined ? '–' : amount(unit, value);
  const [has, asks, due] = [queue.allocated[at] || 0, queue.requested[at] || 0, queue.deserved[at]];
  const within = due === null ? has : Math.min(has, due);
  const bars = el('span', { class: 'bar', role: 'img', 'aria-label': `allocated ${text(has)}, requested ${text(asks)}, deserved ${text(due)}` },
    el('i', { class: 'asked', width: share(asks, most) }),
    el('i', { class: 'used', width: share(within, most) }),
    has > within ? el('i', { class: 'over', left: share(within, most), width: share(has - within, most) }) : '',
    due === null ? '' : el('i', { class: 'tick', left: share(due, most) }));
  const notes = [queue.problem ? 'see below' : '', queue.state === 'Open' ? '' : queue.state, queue.overused ? 'overused' : '', queue.reclaimable ? '' : 'not reclaimable'];
  const title = [el('a', { href: '#gangs', 'data-key': 'queue=' + queue.name, 'data-queue': queue.name, title: 'Show its gangs' }, queue.name),
    el('small', {}, ' ' + notes.filter(Boolean).join(', '))];
  const { pods, gangs } = waiting.get(queue.name);
  const waits = pods > 0 ? counted(pods, 'pod') + (gangs > 0 ? ' of ' + counted(gangs, 'gang') : '') : '–';
  const cells = {
    Queue: el('div', { class: 'depth-' + Math.min(depth, 4) }, title),
    'Allocated, requested, deserved': bars,
    Share: queue.share === undefined ? '–' : percent(queue.share, 1),
    Allocated: text(has), Requested: text(asks), Deserved: text(due), Guarantee: text(queue.guarantee[at]),
    Limit: text(queue.capability[at]), Weight: String(queue.weight), Waiting: waits,
  };
  return row(columns, columns.map(([name]) => cells[name]), { id: idOf('queue=' + queue.name) });
}

/** Nodes that have a resource, the busiest first. */
function busy(view, at) {
  const { list, kinds } = view.state.nodes;
  const nodes = list.map((node, place) => ({ node, place, all: kinds[node.kind].allocatable[at], used: node.used[at] }));
  const having = nodes.filter(({ all }) => all > 0);
  having.sort((a, b) => b.used / b.all - a.used / a.all || (a.node.name < b.node.name ? -1 : 1));
  return { having, without: nodes.length - having.length };
}

function drawNodes(view, ui) {
  const at = ui.resource;
  const resource = view.state.resources[at];
  byId('nodes').hidden = view.state.nodes.total === 0 || !resource;
  if (byId('nodes').hidden) return;
  byId('nodes-title').textContent = 'Nodes: ' + resource.name;
  const { having, without } = busy(view, at);
  const used = having.filter((each) => each.used > 0);
  const full = used.filter((each) => each.used >= each.all).length;
  const empty = having.filter((each) => each.used <= 0);
  const parts = [counted(view.state.nodes.total, 'node'), ...[[full, 'full'], [used.length - full, 'partly used'],
    [empty.length, 'empty']].filter(([count]) => count > 0).map(([count, text]) => counted(count, text, text))];
  if (without > 0) parts.push(counted(without, 'has none', 'have none') + ' of it');
  if (view.state.nodes.leftOut > 0) parts.push(counted(view.state.nodes.leftOut, 'more', 'more') + ' not shown');
  fill('nodes-sum', parts.join(', ') + '.');
  drawHoles(view, at);
  const small = having.length <= 12;
  const drawn = small ? having : used;
  if (drawn.length <= CARDS_MAX) drawCards(view, ui, drawn);
  else drawCells(view, ui, drawn);
  fill('nodes-rest', small ? '' : names(ui, 'empty', counted(empty.length, 'empty node'), empty.map((each) => each.node.name)));
}

/** What single nodes have free, of a resource that a pod needs on one node. */
function drawHoles(view, at) {
  const holes = view.state.holes.find((holes) => holes.resource === at);
  const { unit } = view.state.resources[at];
  if (!holes || holes.sizes.length === 0) {
    fill('nodes-holes', holes ? 'None is free on nodes that take pods.' : '');
    return;
  }
  const sizes = holes.sizes.slice(0, 8).map(({ size, nodes }) => `${amount(unit, size)} on ${counted(nodes, 'node')}`);
  const rest = holes.sizes.length > 8 ? ', …' : '';
  fill('nodes-holes', el('b', {}, amount(unit, holes.free) + ' free'), ': ' + sizes.join(', ') + rest +
    `. A pod gets at most ${amount(unit, holes.sizes[0].size)}.`);
}

const STATES = { cordoned: 'cordoned', notReady: 'not ready' };

function drawCards(view, ui, drawn) {
  const card = ({ node, place }) => {
    const { allocatable } = view.state.nodes.kinds[node.kind];
    const rows = view.state.resources.map((resource, at) => allocatable[at] > 0 ? el('div', { class: 'row' },
      el('span', {}, resource.name), el('span', {}, amount(resource.unit, node.used[at]) + ' / ' + amount(resource.unit, allocatable[at])),
      bar(node.used[at], allocatable[at])) : '');
    return el('div', { class: 'card', role: 'listitem' },
      el('h3', {}, node.name, node.state ? el('small', {}, ' ' + STATES[node.state]) : ''), rows,
      el('small', {}, on(view, place)));
  };
  fill('nodes-map', el('div', { class: 'cards', role: 'list' }, drawn.map(card)));
  fill('nodes-detail', '');
}

/** Links to the gangs on a node. */
function on(view, place) {
  const gangs = (view.onNode.get(place) || []).slice(0, 6);
  const more = (view.onNode.get(place) || []).length - gangs.length;
  const each = gangs.map(([gang, pods], at) => [at > 0 ? ', ' : '', link(gang.solo ? 'pod' : 'podgroup', gang.name), pods > 1 ? ` (${pods})` : '']);
  return [each, more > 0 ? ` and ${more} more` : ''].flat(2);
}

/** A map with a cell for each node. The arrow keys move over it; the text below tells of one node. */
function drawCells(view, ui, drawn) {
  const label = ({ node, all, used }) => node.name + ', ' + percent(used, all) + (node.state ? ', ' + STATES[node.state] : '');
  const cells = drawn.map((each, at) => {
    const level = Math.min(7, Math.max(1, Math.ceil(each.used / each.all * 7)));
    return el('i', { class: 'h' + level + (each.node.state ? ' off' : ''), role: 'option', id: 'cell-' + at, 'aria-label': label(each) });
  });
  const map = el('div', { class: 'cells' + (drawn.length > 1500 ? ' small' : ''), role: 'listbox', tabindex: 0, 'data-key': 'cells',
    'aria-label': 'Nodes, the busiest first. Arrow keys choose one.' }, cells);
  const choose = (at) => {
    const to = Math.max(0, Math.min(drawn.length - 1, at));
    map.querySelector('.here')?.classList.remove('here');
    cells[to].classList.add('here');
    map.setAttribute('aria-activedescendant', 'cell-' + to);
    ui.cell = to;
    ui.node = drawn[to].node.name;
    tellNode(view, drawn[to]);
  };
  map.addEventListener('keydown', (event) => {
    const columns = Math.max(1, cells.findIndex((cell) => cell.offsetTop > cells[0].offsetTop));
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -drawn.length, End: drawn.length };
    if (!(event.key in steps)) return;
    event.preventDefault();
    choose((ui.cell ?? -1) + steps[event.key]);
  });
  const pick = (event) => {
    const at = cells.indexOf(event.target);
    if (at >= 0) choose(at);
  };
  map.addEventListener('click', pick);
  map.addEventListener('mouseover', pick);
  const steps = [1, 2, 3, 4, 5, 6, 7].map((level) => el('i', { class: 'h' + level }));
  fill('nodes-map', map, el('p', { class: 'legend scale' }, 'A cell is a node, from hardly used ', steps, ' to full. Hatched: cordoned or not ready.'));
  const before = drawn.findIndex((each) => each.node.name === ui.node);
  if (before >= 0) choose(before);
  else fill('nodes-detail', 'Point at a node, or move with the arrow keys.');
}

function tellNode(view, { node, place }) {
  const { allocatable } = view.state.nodes.kinds[node.kind];
  const figures = view.state.resources.map((resource, at) => allocatable[at] > 0
    ? `${resource.name} ${amount(resource.unit, node.used[at])} of ${amount(resource.unit, allocatable[at])}` : '').filter(Boolean);
  const gangs = on(view, place);
  fill('nodes-detail', el('b', {}, node.name), node.state ? ' (' + STATES[node.state] + ')' : '', ': ' + figures.join(', ') + '. ', gangs);
}

/** Names that are shown on request. */
function names(ui, key, title, list) {
  if (list.length === 0) return '';
  const details = el('details', { open: ui.open.has(key) }, el('summary', { 'data-key': key }, title));
  const show = () => {
    if (!details.open || details.children.length > 1) return;
    const more = list.length > ROWS_MAX ? ` and ${list.length - ROWS_MAX} more` : '';
    details.append(el('div', { class: 'names' }, list.slice(0, ROWS_MAX).join(' ') + more));
  };
  details.addEventListener('toggle', () => {
    if (details.open) ui.open.add(key);
    else ui.open.delete(key);
    show();
  });
  show();
  return details;
}
