// What a live scheduler says of the open gang beyond the view.

/** How often it is asked while the gang is open. */
const EXPLAIN_EVERY_MS = 10000;

/** The last answer. */
const answered = { key: '', at: 0, facts: null, failed: '' };

/** The headers of a request. Not Authorization, which the API server takes off what it proxies. */
function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { 'X-Phalanx-Token': token } : {};
}

/** Asks about the open gang, unless the last answer is fresh; draws the page anew when the answer comes. */
async function askWhy(key) {
  const fresh = answered.key === key && performance.now() - answered.at < EXPLAIN_EVERY_MS;
  if (!key || fresh) return;
  if (answered.key !== key) Object.assign(answered, { key, facts: null, failed: '' });
  answered.at = performance.now();
  const { kind, name } = object(key);
  try {
    const answer = await fetch('api/v1/explain/' + kind + '/' + name, { headers: headers(), cache: 'no-store' });
    if (answered.key !== key) return;
    if (answer.ok) Object.assign(answered, { facts: await answer.json(), failed: '' });
    else answered.failed = await reason(answer);
  } catch (error) {
    answered.failed = error.message;
  }
  if (answered.key === key && ui.gang === key) draw();
}

/** The terms and texts of the answer on a gang; a page on a file says which command tells the same. */
function whyMore(gang) {
  const key = keyOf(gang);
  if (!isLive()) {
    const [namespace, name] = gang.name.split('/');
    const command = `phalanx explain ${gang.solo ? 'pod' : 'podgroup'} ${name} -n ${namespace} -f FILES`;
    return gang.waiting > 0 || gang.state === 'waiting' ? [['More', [['who holds what it lacks, and what would let it run: ', el('code', {}, command)]]]] : [];
  }
  if (answered.key !== key || (!answered.facts && !answered.failed)) return [['More', [['asking the scheduler …']]]];
  if (answered.failed) return [['More', [['not known: ' + answered.failed]]]];
  const { pod, jobs } = answered.facts;
  return [...jobs.flatMap((job) => ofJob(job)), ...(pod && pod.chosen ? [['Why this node', chosenLines(pod.chosen)]] : [])]
    .filter(([, lines]) => lines.length > 0);
}

const GATES = {
  object: 'its object', queue: 'its queue', gang: 'the gang', enqueue: 'enqueue', quota: 'quota', nodes: 'nodes', release: 'terminating pods',
  backOff: 'back-off', configuration: 'the configuration',
};

/** Node names that are shown of those that a gang cannot use for one reason. */
const NAMES = 5;

/** What is said where not all changes were tried, or none helps. */
function unfound({ found, unfinished, tried }) {
  if (unfinished) return [['Not all changes that might help were tried: the time for that was over']];
  return tried && found.length === 0 ? [['No change was found: no single one; of two or three together not all were tried']] : [];
}

function ofJob({ place, queue, domain, why, willRun, remedies, admission, members }) {
  const [first, rest] = [(at) => `number ${at.at} of ${at.of}`, (count) => count > 0 ? ` and ${count} more` : ''];
  const would = (what, of) => [what + (of.alone ? ', if no other job waited' : ''), [...of.found.map((remedy) => [remedy.text]), ...unfound(of)]];
  const within = (held) => (held.withinQueue ? ' in queue ' + held.withinQueue : '') + (held.reserved ? ', reserved for nominated pods' : '');
  const each = (list, resource, before = '') => list.map((it) => `${before}${it.name} ${people(resource, it.amount)}`);
  const foreign = (held) => held.foreign ? ['pods of other schedulers ' + people(held.resource, held.foreign)] : [];
  return [
    ['Place', place ? [[`${first(place)} waiting in queue ${queue.name}`, queue.place && queue.place.of > 1 ? `; its queue is ${first(queue.place)}` : '']] : []],
    ['Stopped at', why.gate ? [[GATES[why.gate] || why.gate]] : []],
    ['It will run', willRun ? [['once the room on its nominated nodes is free: no change is needed']] : []],
    ...(admission ? [would('It would be admitted', admission)] : []),
    would(members.placed > 0 && members.missing === 0 ? 'More of these would run' : 'It would run', remedies),
    ['Held by', why.holders.map((held) => [`${held.resource}${within(held)}: `, [...each(held.queues, held.resource, 'queue '), ...foreign(held)].join(', '),
      held.jobs.length > 0 ? el('small', {}, ' (', each(held.jobs, held.resource).join(', '), rest(held.others), ')') : ''])],
    ['HyperNodes', (why.domains || []).slice(0, 5).map((it) => [link('hypernode', it.hyperNode), ` (tier ${it.tier}): room for ${it.fits} of ${it.wanted}` +
      (Object.keys(it.missing).length > 0 ? ', lacks ' + Object.entries(it.missing).map(([name, of]) => `${name} ${people(name, of)}`).join(', ') : '')])],
    ['Cannot use', why.constraints.map((of) => [of.names.slice(0, NAMES).join(', ') + rest(of.nodes - Math.min(of.names.length, NAMES)) + ': ' + of.text +
      (of.fragments && of.fragments.nodes > 1 ? ` (${people(of.fragments.resource, of.fragments.free)} free in fragments, at most ` +
        `${people(of.fragments.resource, of.fragments.largest)} on one)` : '')])],
  ];
}

/** Why a pod is on its node. */
function chosenLines({ compared, nodes }) {
  const line = (it) => [`${it.node} ${it.total.toFixed(1)}`, el('small', {}, ' (' +
    Object.entries(it.byPlugin).map(([plugin, score]) => `${plugin} ${score.toFixed(1)}`).join(', ') + ')')];
  return [[`${counted(compared, 'feasible node')}, by score:`], ...nodes.map(line)];
}
