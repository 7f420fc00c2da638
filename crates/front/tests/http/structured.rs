//! A strict reader of RFC 9651 lists, as far as RateLimit fields need it: strings with integer parameters.

/// One member of a list: its string and its parameters, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, i64)>,
}

impl Member {
    pub(crate) fn parameter(&self, key: &str) -> Option<i64> {
        self.parameters.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }
}

/// Reads a list (RFC 9651, section 4.2.1); `None` for anything that isn't one.
pub(crate) fn list(text: &str) -> Option<Vec<Member>> {
    let mut rest = text.trim_matches(' ');
    let mut members = Vec::new();
    loop {
        members.push(member(&mut rest)?);
        rest = rest.trim_start_matches([' ', '\t']);
        if rest.is_empty() {
            return Some(members);
        }
        rest = rest.strip_prefix(',')?.trim_start_matches([' ', '\t']);
    }
}

fn member(rest: &mut &str) -> Option<Member> {
    let name = string(rest)?;
    let mut parameters: Vec<(String, i64)> = Vec::new();
    while let Some(after) = rest.strip_prefix(';') {
        *rest = after.trim_start_matches(' ');
        let key = key(rest)?;
        *rest = rest.strip_prefix('=')?;
        let value = integer(rest)?;
        parameters.push((key, value));
    }
    Some(Member { name, parameters })
}

fn string(rest: &mut &str) -> Option<String> {
    let mut chars = rest.strip_prefix('"')?.char_indices();
    let mut text = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                *rest = &rest[at + 2..];
                return Some(text);
            }
            '\\' => text.push(chars.next().map(|(_, c)| c).filter(|c| matches!(c, '"' | '\\'))?),
            ' '..='~' => text.push(c),
            _ => return None,
        }
    }
    None
}

fn key(rest: &mut &str) -> Option<String> {
    let end = rest
        .find(|c: char| !matches!(c, 'a'..='z' | '0'..='9' | '_' | '-' | '.' | '*'))
        .unwrap_or(rest.len());
    let (key, after) = rest.split_at(end);
    *rest = after;
    key.starts_with(|c: char| matches!(c, 'a'..='z' | '*')).then(|| key.to_owned())
}

fn integer(rest: &mut &str) -> Option<i64> {
    let sign = usize::from(rest.starts_with('-'));
    let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let (number, after) = rest.split_at(sign + digits);
    *rest = after;
    (1..=15).contains(&digits).then(|| number.parse().ok()).flatten()
}

#[test]
fn the_reader_is_strict() {
    let members = list(r#""a\"b";q=1;w=-2 ,	"c""#).unwrap();
    assert_eq!((members[0].name.as_str(), members[0].parameter("w")), ("a\"b", Some(-2)));
    for wrong in
        ["", "a", "\"a\",", "\"a\";Q=1", "\"a\";q", "\"a\";q=", "\"a\";q=1234567890123456", "\"\u{e9}\""]
    {
        assert_eq!(list(wrong), None, "{wrong}");
    }
}
