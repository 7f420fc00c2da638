//! How often a full domain is spoken of.

use super::*;

#[test]
fn a_full_domain_is_spoken_of_once_a_period_and_each_domain_for_itself() {
    let fullness = Fullness::default();
    let at = |seconds| BootTime(Nanos::from_secs(seconds).0);
    assert!(fullness.is_due("a", at(1)));
    assert!(!fullness.is_due("a", at(60)));
    assert!(fullness.is_due("b", at(60)));
    assert!(fullness.is_due("a", at(61)));
    assert!(!fullness.is_due("b", at(62)));
    assert_eq!(fullness.0.lock().len(), 2);
}
