//! Filters as text: the part of SQL's conditions that [`Filter`] has.
//!
//! ```text
//! or         and (OR and)*
//! and        not (AND not)*
//! not        NOT not | ( or ) | condition
//! condition  column (= | == | <> | != | < | <= | > | >=) value
//!            column [NOT] IN ( value, ... )
//!            column [NOT] BETWEEN value AND value
//!            column IS [NOT] NULL
//!            column [NOT] CONTAINS tag
//!            column [NOT] CONTAINS (ANY | ALL) ( tag, ... )
//! column     name | "name"
//! value      7 | -2.5e3 | 'text' | TRUE | FALSE | NULL
//! tag        'text'
//! ```
//!
//! Words of the language may be in lower case. A quote inside quotes is doubled. Timestamps and
//! UUIDs are written as text: `day >= '2024-05-01'`.

use super::{Comparison, FILTER_DEPTH_MAX, Filter};
use crate::Error;
use crate::columns::Value;

/// Longest filter, in bytes.
const TEXT_MAX: usize = 16 << 20;

impl std::str::FromStr for Filter {
    type Err = Error;

    /// Reads a filter such as `topic = 7 and (price < 20 or name in ('a', 'b'))`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] that says what was expected where.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() > TEXT_MAX {
            return Err(Error::argument(format!(
                "a filter has {} bytes, up to {TEXT_MAX} are allowed",
                text.len()
            )));
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        let filter = parser.or()?;
        match parser.peek()? {
            Token::End => Ok(filter),
            _ => Err(parser.expected("AND, OR or the end")),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A name or a word of the language.
    Word(String),
    /// A name in double quotes.
    Name(String),
    Text(String),
    Number(String),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 11] = ["<=", ">=", "<>", "!=", "==", "<", ">", "=", "(", ")", ","];

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<Filter, Error> {
        let mut parts = vec![self.and()?];
        while self.takes("or")? {
            parts.push(self.and()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::Or(parts) })
    }

    fn and(&mut self) -> Result<Filter, Error> {
        let mut parts = vec![self.not()?];
        while self.takes("and")? {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::And(parts) })
    }

    fn not(&mut self) -> Result<Filter, Error> {
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            return Err(Error::argument(format!("a filter is nested more than {FILTER_DEPTH_MAX} deep")));
        }
        let filter = if self.takes("not")? {
            Filter::Not(Box::new(self.not()?))
        } else if self.takes_sign("(")? {
            let filter = self.or()?;
            self.must_take_sign(")")?;
            filter
        } else {
            self.condition()?
        };
        self.depth -= 1;
        Ok(filter)
    }

    fn condition(&mut self) -> Result<Filter, Error> {
        let name = match self.peek()? {
            Token::Name(name) => name,
            Token::Word(word) if !is_reserved(&word) => word,
            _ => return Err(self.expected("the name of a column")),
        };
        self.next()?;
        if self.takes("is")? {
            let negated = self.takes("not")?;
            self.must_take("null")?;
            return Ok(negate(Filter::IsNull(name), negated));
        }
        let negated = self.takes("not")?;
        if self.takes("in")? {
            return Ok(negate(Filter::In(name, self.list()?), negated));
        }
        if self.takes("contains")? {
            return Ok(negate(self.contained(name)?, negated));
        }
        if self.takes("between")? {
            let low = self.value()?;
            self.must_take("and")?;
            let high = self.value()?;
            let low = Filter::Compare(name.clone(), Comparison::GreaterOrEqual, low);
            let high = Filter::Compare(name, Comparison::LessOrEqual, high);
            return Ok(negate(Filter::And(vec![low, high]), negated));
        }
        let comparison = match self.peek()? {
            Token::Sign("=" | "==") => Comparison::Equal,
            Token::Sign("<>" | "!=") => Comparison::NotEqual,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::LessOrEqual,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::GreaterOrEqual,
            _ if negated => return Err(self.expected("IN, BETWEEN or CONTAINS")),
            _ => return Err(self.expected("a comparison, IN, BETWEEN, CONTAINS or IS")),
        };
        if negated {
            return Err(self.expected("IN, BETWEEN or CONTAINS"));
        }
        self.next()?;
        Ok(Filter::Compare(name, comparison, self.value()?))
    }

    /// Parses the operand of CONTAINS.
    fn contained(&mut self, name: String) -> Result<Filter, Error> {
        if self.takes("any")? {
            return Ok(Filter::ContainsAny(name, self.listed(Self::tag)?));
        }
        if self.takes("all")? {
            return Ok(Filter::ContainsAll(name, self.listed(Self::tag)?));
        }
        Ok(Filter::ContainsAny(name, vec![self.tag()?]))
    }

    fn tag(&mut self) -> Result<String, Error> {
        let Token::Text(tag) = self.peek()? else { return Err(self.expected("a tag, which is 'text'")) };
        self.next()?;
        Ok(tag)
    }

    fn list(&mut self) -> Result<Vec<Value>, Error> {
        self.listed(Self::value)
    }

    fn listed<T>(&mut self, one: impl Fn(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        self.must_take_sign("(")?;
        let mut values = Vec::new();
        if self.takes_sign(")")? {
            return Ok(values);
        }
        loop {
            values.push(one(self)?);
            if !self.takes_sign(",")? {
                self.must_take_sign(")")?;
                return Ok(values);
            }
        }
    }

    fn value(&mut self) -> Result<Value, Error> {
        let value = match self.peek()? {
            Token::Text(text) => Some(Value::Text(text)),
            Token::Number(number) => match number.parse() {
                Ok(int) => Some(Value::Int(int)),
                Err(_) => number.parse().ok().map(Value::Float),
            },
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                "true" => Some(Value::Bool(true)),
                "false" => Some(Value::Bool(false)),
                "null" => Some(Value::Null),
                _ => None,
            },
            _ => None,
        };
        let value = value.ok_or_else(|| self.expected("a number, 'text', TRUE, FALSE or NULL"))?;
        self.next()?;
        Ok(value)
    }

    /// Consumes the next token if it is this word. Returns whether it was.
    fn takes(&mut self, word: &str) -> Result<bool, Error> {
        let is_next = matches!(self.peek()?, Token::Word(next) if next.eq_ignore_ascii_case(word));
        if is_next {
            self.next()?;
        }
        Ok(is_next)
    }

    fn takes_sign(&mut self, sign: &'static str) -> Result<bool, Error> {
        let is_next = self.peek()? == Token::Sign(sign);
        if is_next {
            self.next()?;
        }
        Ok(is_next)
    }

    fn must_take(&mut self, word: &str) -> Result<(), Error> {
        if self.takes(word)? { Ok(()) } else { Err(self.expected(&word.to_ascii_uppercase())) }
    }

    fn must_take_sign(&mut self, sign: &'static str) -> Result<(), Error> {
        if self.takes_sign(sign)? { Ok(()) } else { Err(self.expected(sign)) }
    }

    fn expected(&self, what: &str) -> Error {
        let rest = self.text[self.at..].trim_start();
        let at = self.text.len() - rest.len();
        let here: String = rest.chars().take(20).collect();
        let here = if here.is_empty() { "the end".to_owned() } else { format!("{here:?}") };
        Error::argument(format!("filter: expected {what} instead of {here} (byte {at})"))
    }

    fn peek(&mut self) -> Result<Token, Error> {
        let at = self.at;
        let token = self.next();
        self.at = at;
        token
    }

    fn next(&mut self) -> Result<Token, Error> {
        let rest = self.text[self.at..].trim_start();
        let start = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        if first == '\'' || first == '"' {
            let (text, length) = quoted(rest, first).ok_or_else(|| self.expected("a closing quote"))?;
            self.at = start + length;
            return Ok(if first == '"' { Token::Name(text) } else { Token::Text(text) });
        }
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            self.at = start + sign.len();
            return Ok(Token::Sign(sign));
        }
        let is_number = first.is_ascii_digit() || matches!(first, '-' | '+' | '.');
        let length = if is_number { number_length(rest) } else { word_length(rest) };
        if length == 0 {
            return Err(self.expected("a name, a value or a sign"));
        }
        self.at = start + length;
        let token = rest[..length].to_owned();
        Ok(if is_number { Token::Number(token) } else { Token::Word(token) })
    }
}

fn negate(filter: Filter, negated: bool) -> Filter {
    if negated { Filter::Not(Box::new(filter)) } else { filter }
}

fn is_reserved(word: &str) -> bool {
    let words = ["and", "or", "not", "in", "between", "is", "null", "true", "false"];
    words.iter().any(|reserved| word.eq_ignore_ascii_case(reserved))
}

/// The text in quotes at the start of `rest`, and its length with the quotes.
fn quoted(rest: &str, quote: char) -> Option<(String, usize)> {
    let (mut text, mut at) = (String::new(), 1);
    loop {
        let end = at + rest[at..].find(quote)?;
        text.push_str(&rest[at..end]);
        if !rest[end + 1..].starts_with(quote) {
            return Some((text, end + 1));
        }
        text.push(quote);
        at = end + 2;
    }
}

fn word_length(rest: &str) -> usize {
    rest.find(|next: char| !next.is_alphanumeric() && !matches!(next, '_' | '.' | '$')).unwrap_or(rest.len())
}

/// Length of the number at the start: digits, a point, an exponent; a sign at the start and after
/// the exponent.
fn number_length(rest: &str) -> usize {
    let mut before = 'e';
    let ends = |next: char| {
        let signed = matches!(next, '-' | '+') && matches!(before, 'e' | 'E');
        let goes_on = signed || next.is_alphanumeric() || matches!(next, '.' | '_');
        before = next;
        !goes_on
    };
    rest.find(ends).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Filter {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn compare(name: &str, comparison: Comparison, value: Value) -> Filter {
        Filter::Compare(name.into(), comparison, value)
    }

    #[test]
    fn text_is_read_as_sql_reads_it() {
        use Comparison::{Equal, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let topic = || compare("topic", Equal, Value::Int(7));
        let price = || compare("price", Less, Value::Float(-2.5e3));
        assert_eq!(read("topic = 7"), topic());
        assert_eq!(read(" (((topic==7)))"), topic());
        assert_eq!(read("topic=7 AND price<-2.5e3"), Filter::And(vec![topic(), price()]));
        let or = Filter::Or(vec![topic(), Filter::And(vec![topic(), price()])]);
        assert_eq!(read("topic = 7 or topic = 7 and price < -2.5e+3"), or);
        assert_eq!(read("not topic = 7"), Filter::Not(Box::new(topic())));
        assert_eq!(read("\"a \"\"b\" <> 'it''s'"), compare("a \"b", NotEqual, Value::Text("it's".into())));
        assert_eq!(read("x is not null"), Filter::Not(Box::new(Filter::IsNull("x".into()))));
        let values = vec![Value::Int(1), Value::Null, Value::Bool(true), Value::Text("é".into())];
        assert_eq!(read("x in (1, null, TRUE, 'é')"), Filter::In("x".into(), values));
        let any = |tags: &[&str]| Filter::ContainsAny("x".into(), tags.iter().map(|tag| (*tag).into()).collect());
        assert_eq!(read("x contains 'a''b'"), any(&["a'b"]));
        assert_eq!(read("x CONTAINS any ('a', 'b')"), any(&["a", "b"]));
        assert_eq!(read("x not contains any()"), Filter::Not(Box::new(any(&[]))));
        assert_eq!(read("x contains all ('a')"), Filter::ContainsAll("x".into(), vec!["a".into()]));
        assert_eq!(read("contains = 7"), compare("contains", Equal, Value::Int(7)));
        assert_eq!(read("x not in ()"), Filter::Not(Box::new(Filter::In("x".into(), Vec::new()))));
        let (low, high) = (compare("x", GreaterOrEqual, Value::Int(1)), compare("x", LessOrEqual, Value::Int(2)));
        assert_eq!(
            read("x between 1 and 2 and topic = 7"),
            Filter::And(vec![Filter::And(vec![low, high]), topic()])
        );
        assert_eq!(read("x != 99999999999999999999"), compare("x", NotEqual, Value::Float(1e20)));
    }

    #[test]
    fn what_is_not_a_filter_is_refused_where_it_ends() {
        let refused = |text: &str| text.parse::<Filter>().expect_err(text).to_string();
        assert!(refused("").contains("the name of a column instead of the end"), "{}", refused(""));
        assert!(refused("x = ").contains("a number"));
        assert!(refused("x = 'a").contains("closing quote"));
        assert!(refused("x ~ 1").contains("byte 2"));
        assert!(refused("x = 1 y = 2").contains("AND, OR or the end"));
        assert!(refused("(x = 1").contains("expected )"));
        assert!(refused("and = 1").contains("name of a column"));
        assert!(refused("x = y").contains("a number"));
        assert!(refused("x not = 1").contains("IN, BETWEEN or CONTAINS"));
        assert!(refused("x contains 7").contains("a tag, which is 'text' instead of \"7\""));
        assert!(refused("x contains any ('a', null)").contains("a tag"));
        assert!(refused("x contains all 'a'").contains("expected ("));
        assert!(refused("x = 1.2.3").contains("a number"));
        assert!(refused(&"(".repeat(100_000)).contains("64 deep"));
        assert!(refused(&"not ".repeat(100_000)).contains("64 deep"));
        let many = vec!["x = 1"; 1000].join(" or ");
        assert!(matches!(read(&many), Filter::Or(parts) if parts.len() == 1000));
    }
}
