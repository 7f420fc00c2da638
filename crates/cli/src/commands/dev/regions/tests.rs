//! Regions and ways as they are written.

use super::*;

fn words(list: &str) -> Vec<String> {
    list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn regions(names: &str, rtt: &str) -> Regions {
    Regions::read(&words(names), &words(rtt)).unwrap_or_else(|failure| panic!("{failure:?}")).unwrap()
}

fn check_wrong(names: &str, rtt: &str, message: &str, fix: &str) {
    let failure = Regions::read(&words(names), &words(rtt)).expect_err("it is wrong");
    assert_eq!(
        (failure.error.to_string(), failure.next_step.unwrap(), failure.code),
        (message.into(), fix.into(), 2)
    );
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn each_way_takes_half_of_the_round_trip_and_a_pair_that_is_not_named_none() {
    let regions = regions("eu,us,ap", "eu-us=80ms,ap-us=120ms");
    let expected = [("ap", 60), ("eu", 40)].map(|(name, millis)| (name.to_owned(), ms(millis)));
    assert_eq!(regions.delays("us"), expected.into());
    assert_eq!(regions.delays("ap"), [("us".to_owned(), ms(60))].into());
    assert_eq!(regions.describe(), "eu-us 80 ms, eu-ap 0 ms, us-ap 120 ms");
}

#[test]
fn names_may_have_dashes() {
    let regions = regions("eu-west-1,us-east", "us-east-eu-west-1=90ms");
    assert_eq!(regions.describe(), "eu-west-1-us-east 90 ms");
}

#[test]
fn without_regions_there_are_none() {
    assert!(Regions::read(&[], &[]).unwrap_or_else(|failure| panic!("{failure:?}")).is_none());
}

#[test]
fn wrong_flags_are_told_with_what_to_write_instead() {
    check_wrong("", "eu-us=80ms", "--rtt: there are no regions", "add --regions eu,us,ap");
    check_wrong("eu", "", "--regions: 1 region named", "name 2 to 5, for example --regions eu,us,ap");
    check_wrong("eu,eu", "", "--regions: eu is named twice", "name each region once");
    check_wrong(
        "eu,u s",
        "",
        "--regions: \"u s\" is no name of a region",
        "use letters, digits, - and _, at most 32, for example --regions eu,us,ap",
    );
    let pair = "name two of eu, us, for example eu-us=80ms";
    check_wrong("eu,us", "eu-ap=80ms", "--rtt: \"eu-ap\" is no pair of --regions", pair);
    check_wrong("eu,us", "euus=80ms", "--rtt: \"euus\" is no pair of --regions", pair);
    check_wrong("eu,us", "eu-us", "--rtt: \"eu-us\" has no time", "write --rtt eu-us=80ms");
    check_wrong(
        "eu,us",
        "eu-us=80",
        "--rtt: \"eu-us=80\"",
        "write a whole number and ms, s, m or h, for example 500ms or 10s",
    );
    check_wrong(
        "eu,us",
        "us-us=1ms",
        "--rtt: us-us is one region",
        "leave it out: nodes of one region are next to each other",
    );
    check_wrong(
        "eu,us",
        "eu-us=1s",
        "--rtt: \"eu-us=1s\" is too far for one cluster",
        "write 400 ms or less",
    );
    check_wrong(
        "eu,us",
        "eu-us=1ms,us-eu=1ms",
        "--rtt: us-eu is named twice",
        "name each pair once, in either order",
    );
}
