// The tree of HyperNodes, and the gangs in it.

/** Whole levels of the tree are open at first, as long as they have no more rows than this. */
const TREE_ROWS = 40;
/** Members and nodes of a HyperNode that are drawn at first, and gangs. */
const MEMBERS = 48;
const GANGS_HERE = 12;

/** The HyperNodes as a tree, by their places in the list. */
function domains(view) {
  const { list } = view.state.hyperNodes;
  const byName = (a, b) => list[a].name.localeCompare(list[b].name, 'en', { numeric: true });
  const [top, below, depth, here, parts, levels] = [[], list.map(() => []), [], list.map(() => []), list.map(() => []), []];
  list.forEach(({ parent }, at) => {
    depth[at] = parent === undefined ? 0 : depth[parent] + 1;
    levels[depth[at]] = (levels[depth[at]] || 0) + 1;
    (parent === undefined ? top : below[parent]).push(at);
  });
  [top, ...below].forEach((places) => places.sort(byName));
  for (const gang of view.gangs.list) {
    if (gang.domain !== undefined) here[gang.domain]?.push(gang);
    for (const group of gang.subGroups || []) parts[group.domain]?.push({ gang, ...group });
  }
  // Parents stand before their members.
  const within = here.map((gangs) => gangs.length);
  for (let at = list.length - 1; at >= 0; at -= 1) {
    if (list[at].parent !== undefined) within[list[at].parent] += within[at];
  }
  let [rows, open] = [0, -1];
  for (const count of levels) {
    rows += count;
    if (rows > TREE_ROWS) break;
    open += 1;
  }
  // A single root is open in any case: its members are drawn in part.
  return { list, top, below, depth, here, parts, within, open: top.length === 1 ? Math.max(open, 1) : open };
}

function drawTopology(view, ui, redraw) {
  const { list, faults, leftOut } = view.state.hyperNodes;
  const resource = view.state.resources[ui.resource];
  byId('topology').hidden = list.length + faults.length === 0 || !resource;
  if (byId('topology').hidden) return;
  byId('topology-title').textContent = 'Network topology: ' + resource.name;
  fill('topology-sum', nearness(view));
  const tree = domains(view);
  fill('topology-tree', el('ul', { class: 'tree' }, branches(view, ui, redraw, tree, tree.top, '')));
  const left = leftOut > 0 ? [el('p', { class: 'note' }, counted(leftOut, 'HyperNode') + ' of lower tiers not listed.')] : [];
  fill('topology-faults', left, faults.slice(0, FEW).map((fault) => el('p', { class: 'problem' }, fault)));
}

/** How near to each other the pods of gangs are, in a sentence. */
function nearness(view) {
  const { list } = view.state.hyperNodes;
  const placed = view.gangs.list.filter((gang) => !gang.solo && gang.placed > 1 && (gang.nodes || []).length > 0);
  if (placed.length === 0) return 'No gang of several pods has nodes.';
  const tiers = new Map();
  for (const gang of placed) {
    const tier = gang.domain === undefined ? Infinity : list[gang.domain].tier;
    tiers.set(tier, (tiers.get(tier) || 0) + 1);
  }
  const part = ([tier, count]) => count.toLocaleString('en') +
    (tier === Infinity ? ' in no common HyperNode' : ` in one HyperNode of tier ${tier}`);
  return 'Gangs of several pods: ' + [...tiers].sort((a, b) => a[0] - b[0]).map(part).join(', ') + '.';
}

/** The first of a list, and a button that shows the others. */
function firstOf(ui, redraw, list, key, most = MEMBERS) {
  const opened = 'more=' + key;
  const shown = ui.open.has(opened) ? list : list.slice(0, most);
  const rest = list.length - shown.length;
  const button = rest > 0 ? el('button', { type: 'button', 'data-key': opened, onclick: () => redraw({ opened }) }, `Show ${rest} more`) : '';
  return [shown, button];
}

/** The members of a HyperNode, or the roots of the tree. */
function branches(view, ui, redraw, tree, places, name) {
  const [shown, button] = firstOf(ui, redraw, places, 'members' + name);
  return [shown.map((at) => branch(view, ui, redraw, tree, at)), button === '' ? '' : el('li', {}, button)];
}

/** A HyperNode with what is below it, which is drawn when it is opened. */
function branch(view, ui, redraw, tree, at) {
  const it = tree.list[at];
  const key = 'hypernode=' + it.name;
  const isOpen = () => ui.tree.get(key) ?? tree.depth[at] < tree.open;
  const { unit } = view.state.resources[ui.resource];
  const [used, all] = [it.used[ui.resource], it.allocatable[ui.resource]];
  const gangs = tree.here[at];
  const lower = tree.within[at] - gangs.length;
  const names = [gangs.length > 2 ? counted(gangs.length, 'gang') : gangs.map((gang) => gang.name).join(', '),
    tree.parts[at].length > 0 ? counted(tree.parts[at].length, 'sub-group') : '', lower > 0 ? counted(lower, 'gang') + ' in lower ones' : ''].filter(Boolean).join('; ');
  const line = el('summary', { 'data-key': key },
    el('b', {}, it.name), el('small', {}, `tier ${it.tier}${it.tierName ? ` (${it.tierName})` : ''}, ${counted(it.nodes, 'node')}`),
    bar(used, all), el('span', { class: 'use' }, all > 0 ? `${amount(unit, used)} of ${amount(unit, all)}` : 'none'),
    el('span', { class: 'inside' }, names));
  const details = el('details', { open: isOpen() }, line);
  const show = () => {
    if (details.open && details.children.length === 1) details.append(...inside(view, ui, redraw, tree, at));
  };
  details.addEventListener('toggle', () => {
    if (details.open !== isOpen()) ui.tree.set(key, details.open);
    show();
  });
  show();
  return el('li', { id: idOf(key) }, details);
}

function inside(view, ui, redraw, tree, at) {
  const it = tree.list[at];
  const parts = [];
  if (tree.here[at].length > 0) {
    const [shown, button] = firstOf(ui, redraw, tree.here[at], 'gangs' + it.name, GANGS_HERE);
    const each = shown.map((gang, index) => [index > 0 ? ', ' : '', link(gang.solo ? 'pod' : 'podgroup', gang.name), ` (${gang.placed})`]);
    parts.push(el('p', {}, 'Gangs, with their pods: ', each, ' ', button));
  }
  if (tree.parts[at].length > 0) {
    const [shown, button] = firstOf(ui, redraw, tree.parts[at], 'sub-groups' + it.name, GANGS_HERE);
    const each = shown.map(({ gang, name, placed }, index) => [index > 0 ? ', ' : '', `${name} of `, link('podgroup', gang.name), ` (${placed})`]);
    parts.push(el('p', {}, 'Sub-groups, with their pods: ', each, ' ', button));
  }
  const { list, kinds } = view.state.nodes;
  const { unit } = view.state.resources[ui.resource];
  const own = list.filter((node) => node.hyperNode === at);
  if (own.length > 0) {
    const [shown, button] = firstOf(ui, redraw, own, 'nodes' + it.name);
    const each = shown.map((node) => {
      const [used, all] = [node.used[ui.resource], kinds[node.kind].allocatable[ui.resource]];
      return el('span', { class: 'leaf' }, link('node', node.name), bar(used, all),
        el('small', {}, all > 0 ? `${amount(unit, used)} of ${amount(unit, all)}` : 'none', node.state ? ', ' + STATES[node.state] : ''));
    });
    parts.push(el('div', { class: 'leaves' }, each, button));
  }
  if (tree.below[at].length > 0) {
    parts.push(el('ul', {}, branches(view, ui, redraw, tree, tree.below[at], it.name)));
  }
  return parts.length > 0 ? parts : [el('p', {}, 'It has no nodes.')];
}

/** Opens the HyperNodes around one, so that it can be seen. */
function reveal(view, ui, name) {
  const { list, top, below } = domains(view);
  for (let at = list.findIndex((it) => it.name === name); at >= 0; at = list[at].parent ?? -1) {
    const { parent } = list[at];
    const among = parent === undefined ? top : below[parent];
    ui.tree.set('hypernode=' + list[at].name, true);
    if (among.indexOf(at) >= MEMBERS) ui.open.add('more=members' + (parent === undefined ? '' : list[parent].name));
  }
}
