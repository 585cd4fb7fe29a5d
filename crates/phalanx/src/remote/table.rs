//! Tables as vcctl prints them: each cell is filled up to the width of its column.

/// One column.
pub(crate) struct Column<T> {
    title: &'static str,
    width: Width,
    cell: Box<dyn Fn(&T) -> String>,
}

enum Width {
    Fixed(usize),
    /// That of the title and of the longest cell, with these spaces.
    Longest {
        title: usize,
        cells: usize,
    },
}

impl<T> Column<T> {
    /// A column of this width.
    pub(crate) fn fixed(title: &'static str, width: usize, cell: impl Fn(&T) -> String + 'static) -> Self {
        Self { title, width: Width::Fixed(width), cell: Box::new(cell) }
    }

    /// A column as wide as its longest cell, and this space.
    pub(crate) fn longest(title: &'static str, space: usize, cell: impl Fn(&T) -> String + 'static) -> Self {
        Self { title, width: Width::Longest { title: space, cells: space }, cell: Box::new(cell) }
    }

    /// The same with this space behind cells, and a smaller one behind the title.
    pub(crate) fn spaced(
        title: &'static str,
        [title_space, space]: [usize; 2],
        cell: impl Fn(&T) -> String + 'static,
    ) -> Self {
        Self { title, width: Width::Longest { title: title_space, cells: space }, cell: Box::new(cell) }
    }

    /// The title and a cell for each row. A cell that is longer than its column has this many blanks behind it: vcctl
    /// has none, and runs it together with the next one.
    fn cells(&self, rows: &[T], blanks: usize) -> Vec<String> {
        let texts: Vec<String> = rows.iter().map(|row| (self.cell)(row)).collect();
        let width = match self.width {
            Width::Fixed(width) => width,
            Width::Longest { title, cells } => {
                let longest = texts.iter().map(|text| text.chars().count() + cells).max();
                longest.unwrap_or_default().max(self.title.len() + title)
            }
        };
        let filled = |text: String| {
            let missing = width.saturating_sub(text.chars().count());
            text + &" ".repeat(missing.max(blanks))
        };
        std::iter::once(self.title.to_owned()).chain(texts).map(filled).collect()
    }
}

/// A line of titles and a line for each row.
pub(crate) fn table<T>(columns: &[Column<T>], rows: &[T]) -> String {
    let last = columns.len().saturating_sub(1);
    let columns = columns.iter().enumerate();
    let cells: Vec<_> = columns.map(|(at, column)| column.cells(rows, usize::from(at < last))).collect();
    let line = |at: usize| cells.iter().map(|column| column[at].as_str()).collect::<String>() + "\n";
    (0..=rows.len()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_filled_up_to_the_width_of_their_column() {
        let columns = [
            Column::longest("Name", 3, |row: &(&str, u32)| row.0.to_owned()),
            Column::fixed("Weight", 8, |row: &(&str, u32)| row.1.to_string()),
        ];
        assert_eq!(
            table(&columns, &[("research", 1), ("a", 1234567890)]),
            "Name       Weight  \nresearch   1       \na          1234567890\n"
        );
    }
}
