//! At a bound a request passes; one past it is refused by the field's name.

use super::*;

fn check_attributes(name: usize, value: usize, count: usize, expected: Option<&str>) {
    let (name, value) = ("n".repeat(name), vec![0; value]);
    let given = vec![Attribute { name: &name, value: &value }; count];
    let got = attributes("attributes", &given).err().map(|error| error.to_string());
    match expected {
        None => assert_eq!(got, None),
        Some(part) => {
            assert!(got.as_deref().is_some_and(|text| text.contains(part)), "{got:?} lacks {part:?}")
        }
    }
}

#[test]
fn attributes_at_their_bounds_pass() {
    check_attributes(1, 0, 0, None);
    check_attributes(ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, None);
}

#[test]
fn attributes_past_a_bound_are_refused_by_name() {
    check_attributes(0, 1, 1, Some("attributes[0]: its name is empty"));
    check_attributes(
        129,
        1,
        1,
        Some("attributes[0]: at most 128 bytes in its name are taken, 129 were sent"),
    );
    check_attributes(1, 4097, 1, Some("attributes[0] (\"n\"): at most 4096 bytes in its value"));
    check_attributes(1, 1, 65, Some("attributes: at most 64 attributes are taken, 65 were sent"));
}

#[test]
fn an_empty_or_overlong_domain_or_request_id_is_refused() {
    assert!(domain("api").is_ok() && request_id("a").is_ok());
    for text in [String::new(), "d".repeat(129)] {
        assert!(domain(&text).is_err() && request_id(&text).is_err());
    }
}
