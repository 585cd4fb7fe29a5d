'use strict';
// Texts for people. Nothing here touches the page.

const SUFFIXES = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

/** Numbers as the commands write them (crate resource, people.rs): 22.5k, 5818, 402.8, 0.125. */
function compact(number) {
  const steps = Math.abs(number) >= 10000 ? Math.min(Math.floor(Math.log10(Math.abs(number)) / 3), 5) : 0;
  return trimmed(number / 1000 ** steps) + ['', 'k', 'M', 'G', 'T', 'P'][steps];
}

function trimmed(number) {
  const size = Math.abs(number);
  return String(Number(number.toFixed(size < 10 ? 3 : size < 1000 ? 1 : 0)));
}

/** An amount in the unit of its resource. */
function amount(unit, value) {
  if (unit === 'core' && value !== 0 && Math.abs(value) < 1000) return value + 'm';
  if (unit === 'core' || unit === 'milli') return compact(value / 1000);
  if (unit === 'count') return compact(value);
  let steps = 0;
  let size = value;
  while (Math.abs(size) >= 1024 && steps + 1 < SUFFIXES.length) {
    size /= 1024;
    steps += 1;
  }
  return trimmed(size) + SUFFIXES[steps];
}

/** A canonical quantity of a resource, as amounts of it are told. */
function people(resource, quantity) {
  const parts = /^(-?[0-9.]+)(?:([KMGTPE]i)|([mkMGTPE]?))$/.exec(quantity);
  if (!parts) return quantity;
  const value = Number(parts[1]) * (parts[2] ? 1024 ** SUFFIXES.indexOf(parts[2]) : parts[3] === 'm' ? 0.001 : 1000 ** ' kMGTPE'.indexOf(parts[3] || ' '));
  if (/memory$|storage$|hugepages-/.test(resource)) return amount('byte', value);
  return amount(/cpu$/.test(resource) ? 'core' : 'milli', value * 1000);
}

function percent(part, whole) {
  if (!(whole > 0)) return '–';
  const ratio = part / whole;
  const rounded = Math.round(ratio * 100);
  if (rounded === 0 && part > 0) return '< 1 %';
  return (rounded === 100 && ratio < 1 ? 99 : rounded) + ' %';
}

/** 4,000 things; 1 thing. */
function counted(count, one, many) {
  return count.toLocaleString('en') + ' ' + (count === 1 ? one : many || one + 's');
}

/** A duration in its two largest units: 3 h 20 min. */
function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first < 0) return '0 s';
  let left = seconds;
  const parts = [];
  for (const [name, size] of units.slice(first, first + 2)) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0) parts.push(count + ' ' + name);
  }
  return parts.join(' ');
}

/** A moment: seconds of a run in virtual time, else the time of day, with the date when that is not today's. */
function moment(at, view) {
  if (view.begin !== undefined) {
    return at < view.begin ? 'before the run' : at - view.begin < 500 ? 'at the start' : 'after ' + duration(at - view.begin);
  }
  const time = new Date(at);
  const day = new Date(view.now).toDateString() === time.toDateString();
  return day ? time.toLocaleTimeString() : time.toLocaleString();
}

/** What the page says first. */
function headline(view) {
  const { waiting, running, growing, finished, podsWaiting } = view.gangs;
  if (waiting + running + finished === 0) return 'No gangs and no pods of this scheduler';
  const parts = [];
  if (waiting > 0) parts.push(`${counted(waiting, 'gang')}${growing > 0 ? '' : ` (${counted(podsWaiting, 'pod')})`} ${waiting === 1 ? 'waits' : 'wait'}`);
  if (running > 0) parts.push(waiting > 0 ? running.toLocaleString('en') + (running === 1 ? ' runs' : ' run') : counted(running, 'gang runs', 'gangs run'));
  if (growing > 0) parts.push(`further pods of ${counted(growing, 'gang')} wait`);
  if (finished > 0) {
    const ended = finished === 1 ? ' has finished' : ' have finished';
    parts.push(waiting + running > 0 ? finished.toLocaleString('en') + ended : counted(finished, 'gang') + ended);
  }
  if (view.evicted.total > 0) parts.push(counted(view.evicted.total, 'pod was', 'pods were') + ' evicted');
  if (waiting + growing === 0) parts.push('none waits');
  return parts.join(', ');
}

/** Gangs that pass the filters, sorted. */
function chosen(view, ui) {
  const words = ui.text.toLowerCase().split(/\s+/).filter(Boolean);
  const passes = (gang) => {
    if (ui.state !== 'all' && gang.state !== ui.state) return false;
    if (ui.queue !== '' && gang.queue !== ui.queue) return false;
    const reasons = gang.reasons || [];
    if (ui.kind >= 0 && gang.kind !== ui.kind) return false;
    if (words.length === 0) return true;
    const texts = reasons.map((text) => view.reasons.texts[text]).join(' ');
    const all = (gang.name + ' ' + gang.queue + ' ' + gang.phase + ' ' + texts).toLowerCase();
    return words.every((word) => all.includes(word));
  };
  const value = SORTS[ui.sort];
  const sign = ui.down ? -1 : 1;
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    return (x < y ? -sign : x > y ? sign : 0) || (a.name < b.name ? -1 : 1);
  };
  return view.gangs.list.filter(passes).sort(compare);
}

const SORTS = {
  name: (gang) => gang.name,
  queue: (gang) => gang.queue,
  priority: (gang) => gang.priority,
  pods: (gang) => gang.placed + gang.waiting,
  since: (gang) => since(gang),
};

/** Since when a gang waits, runs or is finished. */
function since(gang) {
  const { created, bound, finished } = gang.times;
  if (gang.state === 'finished') return finished || bound || created;
  if (gang.state === 'running') return bound || created;
  return gang.since;
}

/** Queues in the order of their tree, the busiest first among those of one parent, with their depth. */
function tree(queues, resource) {
  const names = new Set(queues.map((queue) => queue.name));
  const below = new Map();
  for (const queue of queues.filter((queue) => queue.name !== 'root')) {
    const parent = names.has(queue.parent) ? queue.parent : '';
    if (!below.has(parent)) below.set(parent, []);
    below.get(parent).push(queue);
  }
  const rows = [];
  const seen = new Set();
  const add = (parent, depth) => {
    const list = below.get(parent) || [];
    list.sort((a, b) => (b.requested[resource] || 0) - (a.requested[resource] || 0) || (a.name < b.name ? -1 : 1));
    for (const queue of list.filter((queue) => !seen.has(queue.name))) {
      seen.add(queue.name);
      rows.push({ queue, depth });
      add(queue.name, depth + 1);
    }
  };
  add('', 0);
  // Queues in a ring of parents.
  for (const queue of queues.filter((queue) => queue.name !== 'root' && !seen.has(queue.name))) rows.push({ queue, depth: 0 });
  return rows;
}

/** What waits in each queue and the queues below it, by name. */
function waitingIn(queues) {
  const byName = new Map(queues.map((queue) => [queue.name, queue]));
  const sums = new Map(queues.map((queue) => [queue.name, { pods: 0, gangs: 0 }]));
  for (const queue of queues) {
    const passed = new Set();
    for (let at = queue; at && !passed.has(at.name); at = byName.get(at.parent)) {
      passed.add(at.name);
      sums.get(at.name).pods += queue.waiting.pods;
      sums.get(at.name).gangs += queue.waiting.gangs;
    }
  }
  return sums;
}

/** The resource that is shown first: of extended ones the most used, else the most used of cpu and memory. */
function scarcest(resources) {
  const rank = (resource) => {
    const used = resource.allocatable > 0 ? resource.used / resource.allocatable : -1;
    return (resource.name.includes('/') && resource.used > 0 ? 2 : 0) + (resource.name === 'pods' ? -1 : 0) + used;
  };
  let best = 0;
  resources.forEach((resource, at) => {
    if (rank(resource) > rank(resources[best])) best = at;
  });
  return best;
}
