//! Does the same with many things on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Returns what `work` makes of each item, in the items' order; at most `jobs` run at the same
/// time.
///
/// # Panics
/// When `work` does.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    if jobs == 1 {
        // What this thread is told to leave unsaid stays so.
        return items.iter().enumerate().map(|(number, item)| work(number, item)).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { return };
                    let result = work(number, item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Returns how many threads the machine runs at the same time.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        for jobs in [1, 3, 200] {
            let results = map(&items, jobs, |number, item| number * item);
            assert!(results.iter().zip(&items).all(|(result, item)| *result == item * item));
        }
        assert!(map(&[0; 0], 4, |_, item| *item).is_empty());
    }
}
