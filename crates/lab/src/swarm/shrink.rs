//! Makes a failing run small: leaves out one part after the other for as long as it still fails.

use super::judge::{Finding, Rule};
use super::plan::{Part, Plan};

/// Returns the parts that the failure does not need, and what fails without them.
///
/// `run` runs a plan. A run that breaks another rule is another failure.
pub(super) fn shrink(
    plan: &Plan,
    found: Finding,
    mut left_out: Vec<Part>,
    run: impl Fn(&Plan) -> Option<Finding>,
) -> (Vec<Part>, Finding) {
    let rule: Rule = found.rule;
    let mut found = found;
    loop {
        let before = left_out.len();
        for part in plan.without(&left_out).parts() {
            let mut fewer = left_out.clone();
            fewer.push(part);
            let smaller = plan.without(&fewer);
            if smaller.links.is_empty() || smaller.flows.is_empty() {
                continue;
            }
            if let Some(again) = run(&smaller).filter(|again| again.rule == rule) {
                found = again;
                left_out = fewer;
            }
        }
        if left_out.len() == before {
            left_out.sort_unstable();
            return (left_out, found);
        }
    }
}
