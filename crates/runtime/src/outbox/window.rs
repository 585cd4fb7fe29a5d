//! How many requests may be in flight.
use super::reply::Reply;

/// Halves when the API server is in trouble and opens by one on each success: the server is not hammered, and one that
/// restarts is probed by single requests.
#[derive(Clone, Debug)]
pub(super) struct Window {
    limit: usize,
    max: usize,
}

impl Window {
    pub(super) fn new(max: usize) -> Self {
        let max = max.max(1);
        Self { limit: max, max }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes the answer to a request. One that `failed_before` may be answered with 500 for what its object is, and
    /// fail for ever: only the first failure of a request narrows the window.
    pub(super) fn observe(&mut self, reply: &Reply, failed_before: bool) {
        self.limit = match reply {
            trouble if trouble.is_trouble() && failed_before => self.limit,
            trouble if trouble.is_trouble() => (self.limit / 2).max(1),
            Reply::Passing { .. } => self.limit,
            Reply::Done | Reply::Gone(_) | Reply::Conflict(_) | Reply::Refused(_) => {
                (self.limit + 1).min(self.max)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::reply::Trouble;
    use super::*;

    #[test]
    fn failures_narrow_the_window_and_successes_open_it() {
        let mut window = Window::new(8);
        let trouble = Reply::Passing { message: "503".into(), trouble: Trouble::Unknown, after: None };
        for expected in [4, 2, 1, 1] {
            window.observe(&trouble, false);
            assert_eq!(window.limit(), expected);
        }
        for expected in [2, 3, 4, 5, 6, 7, 8, 8] {
            window.observe(&Reply::Done, false);
            assert_eq!(window.limit(), expected);
        }
    }

    #[test]
    fn trouble_of_one_object_narrows_nothing() {
        let mut window = Window::new(8);
        let trouble = Reply::Passing { message: "its webhook".into(), trouble: Trouble::Object, after: None };
        window.observe(&trouble, false);
        assert_eq!(window.limit(), 8);
    }

    #[test]
    fn a_request_that_always_fails_narrows_the_window_once() {
        let mut window = Window::new(8);
        let trouble = Reply::Passing { message: "500".into(), trouble: Trouble::Unknown, after: None };
        window.observe(&trouble, false);
        for _ in 0..9 {
            window.observe(&trouble, true);
        }
        assert_eq!(window.limit(), 4);
    }
}
