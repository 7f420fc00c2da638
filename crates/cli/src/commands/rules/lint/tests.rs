//! How a mistake in a rule file is shown.

use std::fs;

use super::*;

fn mistake(line: usize, column: usize) -> RuleError {
    RuleError {
        file: "api.yaml".to_owned(),
        line,
        column,
        field: "limits[0].burst".to_owned(),
        message: "it is 0".to_owned(),
        fix: "use at least 1".to_owned(),
    }
}

#[test]
fn a_mistake_is_shown_with_its_line_and_a_caret_below_the_column() {
    let text = render(&mistake(2, 8), "limits:\n\tburst: 0\n");
    let expected = "error: limits[0].burst: it is 0\n --> api.yaml:2:8\n  |\n2 | \tburst: 0\n  | \t      ^\n  = fix: use at least 1\n";
    assert_eq!(text, expected);
}

#[test]
fn a_mistake_whose_line_is_not_at_hand_still_names_its_place() {
    for line in [0, 9] {
        let text = render(&mistake(line, 1), "");
        assert!(text.contains(&format!("--> api.yaml:{line}:1")), "{text}");
        assert!(!text.contains('^'), "{text}");
    }
}

#[test]
fn of_a_folder_those_files_are_checked_that_a_server_would_read() {
    let folder = std::env::temp_dir().join(format!("leasehold-lint-{}", std::process::id()));
    fs::create_dir_all(folder.join("c.yaml")).unwrap();
    for name in ["b.yml", "a.yaml", ".hidden.yaml", "notes.txt"] {
        fs::write(folder.join(name), "").unwrap();
    }
    let found = rule_files(std::slice::from_ref(&folder));
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(found.unwrap(), [folder.join("a.yaml"), folder.join("b.yml")]);
}

#[test]
fn lines_are_shown_of_files_whose_text_is_at_hand_only() {
    let text = describe(&[mistake(1, 1)], |_| String::new());
    assert!(text.contains("--> api.yaml:1:1") && !text.contains('^'), "{text}");
    let text = describe(&[mistake(1, 1)], |file| format!("text of {file}"));
    assert!(text.contains("1 | text of api.yaml"), "{text}");
}

#[test]
fn a_column_beyond_the_line_or_far_along_it_still_gets_its_caret_in_view() {
    assert_eq!(clip("ab", 5), ("ab".to_owned(), "    ".to_owned()));
    let (shown, indent) = clip(&"x".repeat(10_000), 9_000);
    assert!(shown.len() <= SOURCE_COLUMNS_MAX && indent.len() < SOURCE_COLUMNS_MAX);
}

#[test]
fn what_a_terminal_would_act_on_stays_out_of_the_line_that_is_shown() {
    let text = render(&mistake(1, 4), "a: \u{1b}]0;x\u{7}\u{202e}");
    assert!(text.contains("1 | a: \u{fffd}]0;x\u{fffd}\u{fffd}\n  |    ^\n"), "{text:?}");
}
