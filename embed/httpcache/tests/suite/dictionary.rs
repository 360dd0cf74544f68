//! RFC 9651: Dictionaries, whatever their keys mean.

use http::{HeaderMap, HeaderName, HeaderValue};
use thaw_httpcache::dictionary::{Item, of, parse};

fn text(text: &str) -> Item {
    Item::Text(text.into())
}

/// Section 4.2.2: members and what they are worth.
#[test]
fn members_have_the_values_of_their_types() {
    for (value, item) in [
        ("a=3", Item::Integer(3)),
        ("a=03", Item::Integer(3)),
        ("a=-000000000000003", Item::Integer(-3)),
        ("a=999999999999999", Item::Integer(999_999_999_999_999)),
        ("a=3.0", Item::Other),
        ("a=-123456789012.123", Item::Other),
        ("a=@1659578233", Item::Other),
        ("a=:aGk=:", Item::Other),
        ("a=(1 \"b\";c  d);e", Item::Other),
        ("a=()", Item::Other),
        ("a=%\"f%c3%bc %25 x\"", Item::Other),
        ("a", Item::Boolean(true)),
        ("a;b=?0", Item::Boolean(true)),
        ("a=?0", Item::Boolean(false)),
        ("a=tok/en:*", text("tok/en:*")),
        ("a=*", text("*")),
        (r#"a="b\"\\, c=1""#, text(r#"b"\, c=1"#)),
        ("a=1, b;c, a=2", Item::Integer(2)),
        ("  a=1\t,\t b=2  ", Item::Integer(1)),
    ] {
        let members = parse(value.as_bytes()).unwrap_or_else(|| panic!("none: {value}"));
        assert_eq!(members["a"], item, "{value}");
    }
    assert_eq!(parse(b"").map(|members| members.len()), Some(0));
}

/// Section 4.2: one error, and the field is as if it were not there.
#[test]
fn one_error_and_there_is_none() {
    for value in [
        "a=3.",
        "a=.3",
        "a=-",
        "a=1.2345",
        "a=1234567890123.1",
        "a=1234567890123456",
        "a=@1.5",
        "a=%\"%e4\"",
        "a=%\"%C3%BC\"",
        "a=%\"b",
        "a=%b",
        "a=\"\u{e4}\"",
        "a=(1\"b\")",
        "a=?",
        "a=1,",
        "a=1,,b",
        ",a=1",
        "\ta=1",
        "1=a",
        "a=1 b=2",
        "a=1;=2",
    ] {
        assert_eq!(parse(value.as_bytes()), None, "{value}");
    }
}

/// Section 4.2: the lines of a field are one Dictionary.
#[test]
fn all_lines_are_one() {
    let name = HeaderName::from_static("priority");
    let lines = |lines: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&name, HeaderValue::from_static(line));
        }
        of(&headers, &name)
    };
    assert_eq!(lines(&["a=1", "b, a=2"]).map(|members| members["a"].clone()), Some(Item::Integer(2)));
    assert_eq!(lines(&["a=1", "B"]), None);
    assert_eq!(lines(&[]).map(|members| members.len()), Some(0));
}
