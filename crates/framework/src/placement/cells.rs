//! Cells: nodes of one kind with equal room. For every rule they are one node but for their lot, so that a class has to
//! look at one of them only: the top, which has the largest lot.
use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use super::heap::{Link, Links, NIL};
use super::kinds::Kinds;
use super::lot;
use super::rooms::Rooms;
use crate::plugin::{Attribute, Values};
use phalanx_cluster::id::{Id, NodeId};
use phalanx_cluster::{Node, World};

/// A set of nodes in the same state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// Their kind.
    pub(super) kind: u32,
    /// How many they are; an empty cell waits to be used again.
    pub(super) nodes: u32,
    /// Tells the cell from an earlier one in its slot.
    pub(super) serial: u64,
    /// The lot of its top.
    pub(super) lot: u64,
    top: u32,
    /// The seat of its top.
    seat: u32,
    hash: u64,
    /// Its place among the cells of its kind.
    place: u32,
}

impl Cell {
    /// The node of the largest lot.
    pub(super) fn top(&self) -> NodeId {
        NodeId::from_index(self.top as usize)
    }
}

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Its version when it was put into its cell.
    version: u64,
    /// Its version of attributes when its kind and lot were found.
    statics: u64,
    kind: u32,
    cell: u32,
}

impl Seen {
    const NOTHING: Seen = Seen { version: 0, statics: 0, kind: NIL, cell: NIL };
}

/// The nodes of the World in cells.
#[derive(Debug)]
pub(super) struct Cells {
    seed: u64,
    kinds: Kinds,
    /// By node, where what is known of it lies. Nodes that came together sit in the order of their lots, for that is the
    /// order in which alike nodes are taken.
    seats: Vec<u32>,
    /// By seat.
    nodes: Vec<NodeId>,
    seen: Vec<Seen>,
    links: Links,
    cells: Vec<Cell>,
    /// By slot, the room of the cell's nodes: it lies closer at hand than the top.
    rooms: Rooms,
    free: Vec<u32>,
    by_state: HashTable<u32>,
    /// Slots by kind.
    of_kind: Vec<Vec<u32>>,
    serial: u64,
    /// Where reading of the World's log of touched nodes stopped.
    cursor: u64,
    changed: Changed,
}

/// A log of cells that came, went or got another top.
#[derive(Debug, Default)]
struct Changed {
    cells: Vec<u32>,
    /// Entries that were dropped.
    dropped: u64,
}

impl Changed {
    /// Readers that are further behind than there are cells read all cells in any case.
    fn note(&mut self, cell: u32, cells: usize) {
        if self.cells.len() > 2 * cells + 1024 {
            self.dropped += self.cells.len() as u64;
            self.cells.clear();
        }
        self.cells.push(cell);
    }
}

impl Cells {
    /// No nodes yet; the seed is for lots.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            kinds: Kinds::default(),
            seats: Vec::new(),
            nodes: Vec::new(),
            seen: Vec::new(),
            links: Links::default(),
            cells: Vec::new(),
            rooms: Rooms::default(),
            free: Vec::new(),
            by_state: HashTable::new(),
            of_kind: Vec::new(),
            serial: 0,
            cursor: 0,
            changed: Changed::default(),
        }
    }

    /// All cells by slot, empty ones too.
    pub(super) fn slots(&self) -> &[Cell] {
        &self.cells
    }

    /// The serial of the newest cell.
    pub(super) fn newest(&self) -> u64 {
        self.serial
    }

    /// The rooms of the cells, by slot.
    pub(super) fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// All cells with nodes in them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.nodes > 0)
    }

    /// The kinds of nodes.
    pub(super) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The slots of the cells of a kind.
    pub(super) fn of_kind(&self, kind: u32) -> &[u32] {
        self.of_kind.get(kind as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// A node of a kind.
    pub(super) fn example(&self, kind: u32) -> Option<NodeId> {
        self.of_kind(kind).first().map(|slot| self.cells[*slot as usize].top())
    }

    /// The lot of a node that is in a cell.
    pub(super) fn lot_of(&self, node: NodeId) -> u64 {
        self.links.0[self.seat(node)].lot
    }

    fn seat(&self, node: NodeId) -> usize {
        self.seats[node.index()] as usize
    }

    /// The nodes that are likely to be the next tops of a cell when the top has left it.
    pub(super) fn next_tops(&self, slot: usize) -> impl Iterator<Item = NodeId> {
        let seat = self.cells[slot].seat as usize;
        let alike = move |seen: &Seen| seen.cell as usize == slot;
        let next = self.seen[seat..].iter().zip(&self.nodes[seat..]).take_while(move |(seen, _)| alike(seen));
        next.map(|(_, node)| *node)
    }

    /// The slot of the cell a node is in; a node without an object is in none.
    pub(super) fn of(&self, node: NodeId) -> Option<usize> {
        let seen = &self.seen[*self.seats.get(node.index())? as usize];
        (seen.cell != NIL).then_some(seen.cell as usize)
    }

    /// Slots of cells that changed since a cursor, some more than once; `None` when the log does not reach back.
    pub(super) fn changed_since(&self, cursor: u64) -> Option<&[u32]> {
        self.changed.cells.get(cursor.checked_sub(self.changed.dropped)? as usize..)
    }

    /// The end of the log.
    pub(super) fn changed_end(&self) -> u64 {
        self.changed.dropped + self.changed.cells.len() as u64
    }

    /// Takes note of what rules read. Where that is more than before, kinds and cells are made anew.
    pub(super) fn learn<'a>(&mut self, reads: impl Iterator<Item = &'a (Attribute, Values)>) {
        let more = reads.fold(false, |more, (attribute, values)| self.kinds.learn(attribute, values) || more);
        if more {
            self.clear();
        }
    }

    fn clear(&mut self) {
        // Rankings begin anew when the kinds' stamp changes: the log of cells need not tell them.
        self.kinds.clear();
        self.seats.clear();
        self.nodes.clear();
        self.seen.clear();
        self.links.0.clear();
        self.cells.clear();
        self.rooms.clear();
        self.free.clear();
        self.by_state.clear();
        self.of_kind.clear();
        self.cursor = u64::MAX;
    }

    /// Catches up with the World.
    pub(super) fn sync(&mut self, world: &World) {
        match world.touched_since(self.cursor) {
            Some([]) => return,
            Some(touched) => self.move_nodes(world, touched.iter().copied()),
            None => self.move_nodes(world, (0..world.nodes.bound()).map(NodeId::from_index)),
        }
        self.cursor = world.touched_end();
    }

    /// Moves nodes to the cells where they belong. All leave before any joins.
    fn move_nodes(&mut self, world: &World, nodes: impl Iterator<Item = NodeId> + Clone) {
        self.seat_all(world);
        let version = |id: NodeId| world.nodes.get(id).map_or(0, |node| node.version.0);
        for id in nodes.clone() {
            let seen = self.seen[self.seat(id)];
            if seen.cell != NIL && seen.version != version(id) {
                self.leave(id);
            }
        }
        for id in nodes {
            let seat = self.seat(id);
            let seen = self.seen[seat];
            if seen.version == version(id) {
                continue;
            }
            match world.nodes.get(id).filter(|node| node.exists) {
                Some(node) => self.join(id, node),
                None => self.forget(id),
            }
            self.seen[seat].version = version(id);
        }
    }

    /// Gives seats to nodes that have none.
    fn seat_all(&mut self, world: &World) {
        let seated = self.seats.len();
        let lot = |id: NodeId| world.nodes.get(id).map(|node| lot(self.seed, &node.name));
        let mut new: Vec<_> =
            (seated..world.nodes.bound()).map(NodeId::from_index).map(|id| (lot(id), id)).collect();
        new.sort_unstable_by(|a, b| b.cmp(a));
        self.seats.resize(seated + new.len(), 0);
        for (_, id) in new {
            self.seats[id.index()] = self.nodes.len() as u32;
            self.nodes.push(id);
        }
        self.seen.resize(self.nodes.len(), Seen::NOTHING);
        self.links.0.resize(self.nodes.len(), Link::default());
    }

    fn forget(&mut self, id: NodeId) {
        let seat = self.seat(id);
        let seen = std::mem::replace(&mut self.seen[seat], Seen::NOTHING);
        if seen.kind != NIL {
            self.kinds.leave(seen.kind);
        }
    }

    fn leave(&mut self, id: NodeId) {
        let seat = self.seat(id);
        let slot = std::mem::replace(&mut self.seen[seat].cell, NIL);
        let cell = &mut self.cells[slot as usize];
        let was_top = cell.seat as usize == seat;
        cell.nodes -= 1;
        cell.seat = self.links.remove(cell.seat, seat as u32);
        if was_top {
            cell.lot = self.links.lot(cell.seat);
            cell.top = self.nodes.get(cell.seat as usize).map_or(NIL, |node| node.index() as u32);
        }
        if cell.nodes == 0 {
            let hash = cell.hash;
            if let Ok(entry) = self.by_state.find_entry(hash, |other| *other == slot) {
                entry.remove();
            }
            self.drop_cell(slot);
        }
        if was_top {
            self.changed.note(slot, self.cells.len());
        }
    }

    fn drop_cell(&mut self, slot: u32) {
        let Cell { kind, place, .. } = self.cells[slot as usize];
        let list = &mut self.of_kind[kind as usize];
        list.swap_remove(place as usize);
        if let Some(moved) = list.get(place as usize) {
            self.cells[*moved as usize].place = place;
        }
        self.free.push(slot);
    }

    fn join(&mut self, id: NodeId, node: &Node) {
        let seat = self.seat(id);
        if self.seen[seat].statics != node.static_version.0 {
            self.meet(seat, node);
        }
        let kind = self.seen[seat].kind;
        let hash = hash_of(kind, node);
        let Self { cells, rooms, by_state, .. } = self;
        let same = |slot: &u32| {
            let cell = &cells[*slot as usize];
            cell.hash == hash && cell.kind == kind && rooms.node(*slot).same_room(node)
        };
        let slot = match by_state.find(hash, same) {
            Some(slot) => *slot,
            None => self.new_cell(kind, hash, node),
        };
        let cell = &mut self.cells[slot as usize];
        cell.nodes += 1;
        cell.seat = self.links.meld(cell.seat, seat as u32);
        self.seen[seat].cell = slot;
        if cell.seat as usize == seat {
            cell.lot = self.links.lot(cell.seat);
            cell.top = id.index() as u32;
            self.changed.note(slot, self.cells.len());
        }
    }

    /// Finds the kind and the lot of a node that is new or has other attributes now.
    fn meet(&mut self, seat: usize, node: &Node) {
        let kind = self.kinds.join(node);
        let seen = &mut self.seen[seat];
        let before = std::mem::replace(&mut seen.kind, kind);
        seen.statics = node.static_version.0;
        self.links.0[seat].lot = lot(self.seed, &node.name);
        if before != NIL {
            self.kinds.leave(before);
        }
    }

    fn new_cell(&mut self, kind: u32, hash: u64, node: &Node) -> u32 {
        self.serial += 1;
        if self.of_kind.len() <= kind as usize {
            self.of_kind.resize_with(kind as usize + 1, Vec::new);
        }
        let place = self.of_kind[kind as usize].len() as u32;
        let cell = Cell { kind, nodes: 0, serial: self.serial, lot: 0, top: NIL, seat: NIL, hash, place };
        let slot = if let Some(slot) = self.free.pop() {
            self.cells[slot as usize] = cell;
            slot
        } else {
            self.cells.push(cell);
            self.cells.len() as u32 - 1
        };
        self.rooms.assume(slot, node);
        self.of_kind[kind as usize].push(slot);
        let cells = &self.cells;
        self.by_state.insert_unique(hash, slot, |slot| cells[*slot as usize].hash);
        slot
    }
}

fn hash_of(kind: u32, node: &Node) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u32(kind);
    node.hash_room(&mut hasher);
    hasher.finish()
}
