// Reasons, gangs, evictions, Jobs and events.

const PAGE = 25;
/** Evictions and events that are drawn at first. */
const FEW = 20;

function drawWhy(view, ui, redraw) {
  const kinds = view.reasons.kinds.map((kind, at) => ({ ...kind, at })).filter((kind) => kind.gangs > 0);
  kinds.sort((a, b) => b.gangs - a.gangs || b.pods - a.pods);
  byId('why').hidden = kinds.length === 0;
  const shown = ui.open.has('why') ? kinds : kinds.slice(0, 8);
  const item = (kind) => {
    const queues = Object.entries(kind.queues).sort((a, b) => b[1] - a[1]);
    const named = queues.slice(0, 4).map(([name, count]) => queues.length > 1 ? `${name} (${count.toLocaleString('en')})` : name).join(', ');
    const of = (queues.length > 1 ? ' in queues ' : ' in queue ') + named + (queues.length > 4 ? ` and ${queues.length - 4} more` : '');
    const show = () => redraw({ kind: kind.at, state: 'all', text: '', queue: '', page: 0, to: 'gangs' });
    return el('li', {}, el('b', {}, counted(kind.gangs, 'gang')),
      el('p', {}, kind.example, ' ', el('small', {}, counted(kind.pods, 'waiting pod') + of)),
      el('button', { type: 'button', onclick: show, 'data-key': 'kind=' + kind.at, 'aria-label': 'Show the gangs that wait for: ' + kind.example }, 'Show'));
  };
  const rest = kinds.length - shown.length;
  const more = rest > 0 ? el('li', {}, el('b', {}, ''), el('p', {}, counted(rest, 'more kind', 'more kinds') + ' of reasons'),
    el('button', { type: 'button', 'data-key': 'why-all', onclick: () => redraw({ opened: 'why' }) }, 'Show all')) : '';
  fill('why-list', shown.map(item), more);
}

const COLUMNS = [
  ['Gang', { class: 'name' }, 'name'], ['Queue', {}, 'queue'], ['Priority', { class: 'num' }, 'priority'], ['Pods', { class: 'short' }, 'pods'],
  ['Since', { class: 'short' }, 'since'], ['Why', { class: 'why' }], ['Timeline', { class: 'line' }],
];

const STATE_NAMES = { waiting: 'Waiting', running: 'Running', finished: 'Finished', all: 'All' };

function drawFilter(view, ui) {
  const counts = { ...view.gangs, all: view.gangs.waiting + view.gangs.running + view.gangs.finished };
  const option = (value, text, chosen) => el('option', { value, selected: value === chosen }, text);
  fill('filter-state', Object.entries(STATE_NAMES).map(([state, text]) => option(state, `${text} (${counts[state].toLocaleString('en')})`, ui.state)));
  const queues = [...new Set(view.gangs.list.map((gang) => gang.queue))].sort();
  fill('filter-queue', option('', 'All', ui.queue), queues.map((queue) => option(queue, queue, ui.queue)));
  if (byId('filter-text').value !== ui.text) byId('filter-text').value = ui.text;
  byId('filter-kind').hidden = ui.kind < 0;
  byId('filter-kind').textContent = ui.kind < 0 ? '' : '✕ ' + view.reasons.kinds[ui.kind].example;
  byId('filter-kind').setAttribute('aria-label', 'Remove the filter by reason');
}

function drawGangs(view, ui, redraw) {
  drawFilter(view, ui);
  const gangs = chosen(view, ui);
  const pages = Math.max(1, Math.ceil(gangs.length / PAGE));
  ui.page = Math.max(0, Math.min(ui.page, pages - 1));
  const first = ui.page * PAGE;
  const shown = gangs.slice(first, first + PAGE);
  const left = view.gangs.leftOut > 0 ? `; ${counted(view.gangs.leftOut, 'gang')} not listed` : '';
  byId('filter-count').textContent = counted(gangs.length, 'gang') + left;
  drawHead(ui, redraw);
  const range = span(view, shown);
  const rows = shown.flatMap((gang) => gangRows(view, ui, redraw, range, gang));
  const none = el('tr', {}, el('td', { colspan: COLUMNS.length }, ui.state === 'waiting' ? 'No gang waits.' : 'No gang is like this.'));
  byId('gangs-table').tBodies[0].replaceChildren(...(rows.length > 0 ? rows : [none]));
  const turn = (text, page, key) => el('button', { type: 'button', disabled: page < 0 || page >= pages, 'data-key': key,
    onclick: () => redraw({ page, to: 'gangs' }) }, text);
  fill('pager', pages > 1 ? [turn('Previous', ui.page - 1, 'previous'), turn('Next', ui.page + 1, 'next'),
    `${(first + 1).toLocaleString('en')} to ${(first + shown.length).toLocaleString('en')} of ${gangs.length.toLocaleString('en')}`] : '');
}

function drawHead(ui, redraw) {
  byId('gangs-table').classList.add('flat');
  const cells = COLUMNS.map(([text, props, sort]) => {
    if (!sort) return el('th', { scope: 'col', ...props }, text);
    const by = () => redraw({ sort, down: ui.sort === sort && !ui.down, page: 0 });
    const order = ui.sort === sort ? (ui.down ? 'descending' : 'ascending') : undefined;
    return el('th', { scope: 'col', ...props, 'aria-sort': order }, el('button', { type: 'button', onclick: by, 'data-key': 'sort=' + sort }, text));
  });
  byId('gangs-table').tHead.replaceChildren(el('tr', {}, cells));
}

const keyOf = (gang) => (gang.solo ? 'pod=' : 'podgroup=') + gang.name;

function gangRows(view, ui, redraw, range, gang) {
  const key = keyOf(gang);
  const open = ui.gang === key;
  const texts = (gang.reasons || []).map((text) => view.reasons.texts[text]);
  const state = el('span', { class: 'state ' + gang.state }, gang.phase);
  const needs = gang.min > 1 && gang.placed < gang.min ? `, min ${gang.min}` : '';
  const pods = `${gang.placed} of ${gang.placed + gang.waiting + (gang.failed || 0)}${needs}`;
  const moments = gang.state === 'waiting' ? 'for ' + duration(view.now - Math.max(since(gang), view.begin ?? 0)) : moment(since(gang), view);
  const toggle = link(gang.solo ? 'pod' : 'podgroup', gang.name);
  toggle.setAttribute('aria-expanded', String(open));
  const why = [gang.problem, ...texts].filter(Boolean);
  const cells = [[toggle, ' ', state], gang.queue, String(gang.priority), pods, moments,
    why.length > 0 ? brief(why, open) : gang.state === 'waiting' ? 'not tried yet' : '', timeline(view, range, gang)];
  const line = row(COLUMNS, cells, { id: idOf(key), class: open ? 'open' : undefined });
  return open ? [line, el('tr', { class: 'detail' }, el('td', { colspan: COLUMNS.length }, detail(view, gang)))] : [line];
}

/** The first reason in full; the others stand in the detail. */
function brief(why, open) {
  const more = why.length - 1;
  return [why[0], more > 0 && !open ? el('small', {}, ' and ' + counted(more, 'more reason')) : ''];
}

/** The time that the timelines of these gangs cover. */
function span(view, gangs) {
  const from = gangs.map((gang) => gang.times.created).filter((time) => time > 0);
  const begin = view.begin ?? Math.min(view.now - 1, ...from);
  return { begin, end: Math.max(view.now, begin + 1) };
}

/** What happened to a gang, in order. */
function happened({ times }) {
  const moments = [['created', times.created], ['let into its queue', times.enqueued], ['nominated', times.nominated], ['bound', times.bound],
    ['last pod bound', times.last_bound === times.bound ? undefined : times.last_bound], ['pod evicted', times.evicted], ['finished', times.finished]];
  return moments.filter(([, time]) => time !== undefined).sort((a, b) => a[1] - b[1]);
}

function timeline(view, { begin, end }, gang) {
  const at = (time) => share(time - begin, end - begin);
  const piece = (kind, from, to) => {
    const start = Math.max(from, begin);
    return to > start ? el('i', { class: kind, left: at(start), width: share(to - start, end - begin) }) : '';
  };
  const { created, enqueued, bound, evicted, finished } = gang.times;
  const over = gang.state === 'finished' ? finished ?? end : end;
  const started = bound ?? (gang.placed > 0 ? created : over);
  const entered = Math.min(enqueued ?? (gang.phase === 'Pending' ? started : created), started);
  // A gang of which nothing is placed has run until it was evicted.
  const stopped = gang.placed > 0 || gang.state === 'finished' ? over : Math.max(evicted ?? started, started);
  const text = happened(gang).map(([what, time]) => what + ' ' + moment(time, view)).join(', ');
  return el('span', { class: 'bar', role: 'img', 'aria-label': text, title: text },
    piece('asks', created, entered), piece('waits', entered, started), piece('runs', started, stopped), piece('waits', stopped, over),
    evicted === undefined ? '' : el('i', { class: 'evicted', left: at(evicted) }));
}

function detail(view, gang) {
  const term = (name, ...content) => content.flat(4).length > 0 ? [el('dt', {}, name), el('dd', {}, content)] : [];
  const reasons = (gang.reasons || []).map((text) => el('div', {}, view.reasons.texts[text]));
  const lack = gang.lack === undefined ? [] : [el('div', {}, view.reasons.texts[gang.lack])];
  const nodes = (gang.nodes || []).map(([place, pods], at) => [at > 0 ? ', ' : '', link('node', view.state.nodes.list[place].name), ` (${pods})`]);
  const more = gang.moreNodes > 0 ? [` and ${gang.moreNodes} more`] : [];
  const evicted = view.evicted.list.filter((it) => (gang.solo ? it.pod : it.group) === gang.name).slice(0, 5)
    .map((it) => el('div', {}, it.pod + ' ' + moment(it.at, view) + ': ' + it.reason));
  const moments = happened(gang).map(([what, time]) => el('div', {}, what + ' ' + moment(time, view)));
  const pods = [`${gang.placed} placed, ${gang.waiting} waiting` + (gang.nominated ? ` (${gang.nominated} nominated)` : '') +
    (gang.failed ? `, ${gang.failed} failed` : '') + `; minMember ${gang.min}`];
  const domain = gang.domain === undefined ? null : view.state.hyperNodes.list[gang.domain];
  const near = domain ? [link('hypernode', domain.name), ` (tier ${domain.tier})`]
    : gang.nodes && view.state.hyperNodes.list.length > 0 ? ['in no common one'] : [];
  const subGroups = (gang.subGroups || []).map(({ name, placed, domain }) => {
    const { name: of, tier } = view.state.hyperNodes.list[domain];
    return el('div', {}, `${name} (${counted(placed, 'pod')}) in `, link('hypernode', of), ` (tier ${tier})`);
  });
  const moreSubGroups = gang.moreSubGroups > 0 ? [el('div', {}, `and ${gang.moreSubGroups} more`)] : [];
  const further = whyMore(gang).map(([name, lines]) => term(name, lines.map((line) => el('div', {}, line))));
  return el('dl', {}, term('Phase', gang.phase), term('Pods', pods), term('Annotations', gang.problem ? [gang.problem] : []), term('Why it waits', reasons), term('Nearest node', lack),
    further, term('Times', moments), term('HyperNode', near), term('Sub-groups', subGroups, moreSubGroups), term('Nodes', nodes.flat(), more), term('Evicted', evicted));
}

/** A button that shows the rest of a list. */
function showAll(key, more, redraw) {
  return more ? el('button', { type: 'button', 'data-key': key + '-all', onclick: () => redraw({ opened: key }) }, 'Show all') : '';
}

const EVICTED = [['When', { class: 'short' }], ['Pod', { class: 'name' }], ['Preemptor'], ['Action'], ['Why', { class: 'why' }]];

function drawEvictions(view, ui, redraw) {
  const { list, total } = view.evicted;
  byId('evictions').hidden = total === 0;
  if (total === 0) return;
  byId('evictions-table').classList.add('flat');
  head('evictions-table', EVICTED);
  const shown = ui.open.has('evictions') ? list : list.slice(0, FEW);
  const line = (it) => row(EVICTED, [moment(it.at, view), [it.pod, it.group ? [' of ', known(view, it.group)] : ''].flat(),
    it.by ? known(view, it.by) : 'none: the pod is moved', it.action, it.reason]);
  byId('evictions-table').tBodies[0].replaceChildren(...shown.map(line));
  const note = total > shown.length ? `The last ${shown.length.toLocaleString('en')} of ${total.toLocaleString('en')}. ` : '';
  fill('evictions-note', note, showAll('evictions', shown.length < list.length, redraw));
}

/** A link to a gang or pod that is listed, else its name. */
function known(view, name) {
  for (const kind of ['podgroup', 'pod']) {
    if (view.byKey.has(kind + '=' + name)) return link(kind, name);
  }
  return name;
}

const JOB = [['Job', { class: 'name' }], ['Phase'], ['Retries', { class: 'num' }], ['Pods'], ['History', { class: 'why' }]];

function drawJobs(view) {
  const { jobs, cronJobs, jobFlows } = view.finished;
  byId('jobs').hidden = jobs.length + cronJobs.length + jobFlows.length === 0;
  const table = (columns, rows) => rows.length === 0 ? '' : el('table', { class: 'flat' },
    el('thead', {}, el('tr', {}, columns.map(([text, props]) => el('th', { scope: 'col', ...props }, text)))),
    el('tbody', {}, rows.map((cells) => row(columns, cells))));
  const pods = (job) => ['waiting', 'running', 'succeeded', 'failed'].map((name, at) => job.pods[at] > 0 ? `${job.pods[at]} ${name}` : '')
    .filter(Boolean).join(', ');
  fill('jobs-tables',
    table([['JobFlow', { class: 'name' }], ['Phase'], ['Completed'], ['Warning']], jobFlows.map((it) => [it.name, ...it.cells])),
    table([['CronJob', { class: 'name' }], ['Started'], ['Active'], ['Last']], cronJobs.map((it) => [it.name, ...it.cells])),
    table(JOB, jobs.slice(0, 500).map((job) => [job.name, job.phase, String(job.retries), pods(job), job.history.map((line) => el('div', {}, line))])),
    jobs.length > 500 ? el('p', { class: 'note' }, `The first 500 of ${jobs.length}.`) : '');
}

const EVENT = [['When', { class: 'short' }], ['What'], ['Object', { class: 'name' }], ['Details', { class: 'why' }]];

function drawEvents(view, ui, redraw) {
  byId('events').hidden = view.events.length === 0;
  const shown = ui.open.has('events') ? view.events : view.events.slice(0, FEW);
  byId('events-table').classList.add('flat');
  head('events-table', EVENT);
  const line = (it) => {
    const { kind, name } = object(it.object);
    return row(EVENT, [moment(it.at, view), it.what, kind === 'queue' ? link('queue', name) : known(view, name), it.text]);
  };
  byId('events-table').tBodies[0].replaceChildren(...shown.map(line));
  const note = shown.length < view.events.length ? `The last ${shown.length} of ${view.events.length}. ` : '';
  fill('events-note', note, showAll('events', shown.length < view.events.length, redraw));
}
