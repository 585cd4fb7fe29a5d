// Elements. Texts of objects are hostile input: they are set as text only.

function el(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'onclick') element.addEventListener('click', value);
    else if (name === 'left' || name === 'width') element.style[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(4).filter((child) => child !== undefined && child !== null && child !== ''));
  return element;
}

const byId = (id) => document.getElementById(id);

function fill(id, ...children) {
  byId(id).replaceChildren(...children.flat(4).filter((child) => child !== undefined && child !== null && child !== ''));
}

/** A link to an object of the page. */
function link(kind, name, text) {
  return el('a', { href: '#' + kind + '=' + encodeURIComponent(name).replaceAll('%2F', '/'), 'data-key': kind + '=' + name }, text || name);
}

/** The id of the row of an object. It is not the object's fragment, or the browser would take the focus from the row's link. */
const idOf = (key) => 'row:' + key;

/** The object that an address or event names: podgroup=ns/name. */
function object(text) {
  const at = text.indexOf('=');
  return at < 0 ? null : { kind: text.slice(0, at), name: text.slice(at + 1) };
}

const share = (part, whole) => Math.max(0, Math.min(1, whole > 0 ? part / whole : 0)) * 100 + '%';

function bar(part, whole) {
  return el('span', { class: 'bar', 'aria-hidden': 'true' }, el('i', { width: share(part, whole) }));
}

function head(table, columns) {
  const cell = ([text, props]) => el('th', { scope: 'col', ...(props || {}) }, text);
  byId(table).tHead.replaceChildren(el('tr', {}, columns.map(cell)));
}

/** Cells that tell their column where the table is drawn as a list. */
function row(columns, cells, props) {
  const cell = (content, at) => el('td', { 'data-head': columns[at][0], class: (columns[at][1] || {}).class }, content);
  return el('tr', props || {}, cells.map(cell));
}
