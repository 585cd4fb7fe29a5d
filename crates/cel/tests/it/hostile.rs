//! Expressions that are long, deep, costly or random: a value or an error comes of each, on a small stack and soon.
use std::time::{Duration, Instant};

use phalanx_cel::{Budget, Expression};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::device::Gpu;

/// The longest expression, in bytes.
const LONGEST: usize = 10 * 1024;
/// A quarter of the stack that the thread of the cycle has.
const STACK: usize = 512 << 10;

fn on_a_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap()
}

/// Reads, compares, copies, shows, evaluates and drops.
fn eval(text: &str) -> Result<bool, String> {
    let read = Expression::parse(text, &mut Budget::new(500_000)).map_err(|error| error.0)?;
    assert!(read == read.clone() && !format!("{read:?}").is_empty());
    read.selects(&Gpu, &mut Budget::new(u64::MAX)).map_err(|error| error.0)
}

/// What stands before a value, the value, and what stands behind it, both as often as is told.
struct Construct(&'static str, &'static str, &'static str);

const CONSTRUCTS: &[Construct] = &[
    Construct("(", "true", ")"),
    Construct("[", "true", "]"),
    Construct("!", "true", ""),
    Construct("-", "1", ""),
    Construct("!-", "1", ""),
    Construct("!(", "true", ")"),
    Construct("", "true", "&&true"),
    Construct("", "false", "||false"),
    Construct("", "false", "||x"),
    Construct("true&&(", "true", ")"),
    Construct("false||true&&(", "true", ")"),
    Construct("", "true", "&&true||false"),
    Construct("", "1", "+1"),
    Construct("", "1", "*1"),
    Construct("", "'a'", "+'a'"),
    Construct("", "[1]", "+[1]"),
    Construct("", "true", "==true"),
    Construct("", "1", "<1"),
    Construct("", "1", " in[1]"),
    Construct("false||true&&1==1+1*(", "1", ")"),
    Construct("true?true:", "true", ""),
    Construct("", "true", "?true:true"),
    Construct("true?", "true", ":true"),
    Construct("", "device", ".a"),
    Construct("", "device", ".?a"),
    Construct("", "device", "['attributes']"),
    Construct("", "device", "[?'attributes']"),
    Construct("device[", "'driver'", "]"),
    Construct("", "device.driver", ".lowerAscii()"),
    Construct("", "'a'", ".contains('a')"),
    Construct("'a'.contains(", "'a'", ")"),
    Construct("", "'a'", ".matches('a')"),
    Construct("'a'.matches('a'+", "'a'", ")"),
    Construct("size(", "'a'", ")"),
    Construct("has(", "device.a", ")"),
    Construct("has(device[", "'driver'", "].a)"),
    Construct("quantity(", "'1'", ")"),
    Construct("optional.of(", "1", ")"),
    Construct("", "optional.of(1)", ".or(optional.of(1))"),
    Construct("optional.none().or(", "optional.of(1)", ")"),
    Construct("optional.of(1).orValue(", "1", ")"),
    Construct("optional.of(1).optMap(x,", "1", ")"),
    Construct("optional.of(1).optFlatMap(x,", "optional.of(1)", ")"),
    Construct("", "[1]", ".map(x,x)"),
    Construct("", "[1]", ".map(x,true,[x])"),
    Construct("[1].map(x,", "1", ")"),
    Construct("[1].filter(x,", "true", ")"),
    Construct("[1].all(x,", "true", ")"),
    Construct("[1].exists(x,", "true", ")"),
    Construct("[1].exists_one(x,", "true", ")"),
    Construct("cel.bind(x,1,", "true", ")"),
    Construct("cel.bind(x,[x],", "x", ")"),
    Construct("cel.bind(x,", "true", ",x)"),
    Construct("cel.bind(x,[1],cel.bind(x,[[[[[[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]]]]],", "x", "))"),
    Construct("[1,", "1", "]"),
    Construct("[1].map(x,[1].all(x,[1].exists(x,[1].filter(x,", "x", ")==[]))))"),
];

impl Construct {
    fn times(&self, count: usize) -> String {
        format!("{}{}{}", self.0.repeat(count), self.1, self.2.repeat(count))
    }

    /// As often as fits into a length.
    fn filling(&self, length: usize) -> String {
        self.times((length - self.1.len()) / (self.0.len() + self.2.len()))
    }
}

/// Each construct at every depth about the highest, and as often as fits.
#[test]
fn no_construct_overflows_a_stack() {
    on_a_small_stack(|| {
        for construct in CONSTRUCTS {
            for count in (1..130).chain([200, 1_000]) {
                let _ = eval(&construct.times(count));
            }
            let _ = eval(&construct.filling(LONGEST));
            let bound = format!("cel.bind(x, false, {})", construct.filling(LONGEST - 100));
            let _ = eval(&bound);
            let open = construct.0.repeat(LONGEST / construct.0.len().max(1));
            let _ = eval(&open[..open.len().min(LONGEST)]);
        }
    });
}

#[test]
fn and_or_and_bind_take_as_many_operands_as_fit_the_expression() {
    on_a_small_stack(|| {
        for (construct, expected) in [
            (Construct("cel.bind(x,false,", "x", ")"), Ok(false)),
            (Construct("", "true", "&&true"), Ok(true)),
            (Construct("", "false", "||false"), Ok(false)),
            (Construct("", "true", "&&true||false"), Ok(true)),
            (Construct("", "x", "||x"), Err("there is no variable x".to_owned())),
        ] {
            assert_eq!(eval(&construct.times(40)), expected);
        }
        let all = |side: &str, count: usize| format!("cel.bind(x,false,{}x)", side.repeat(count));
        assert_eq!(eval(&all("x||", 3_400)), Ok(false));
        assert_eq!(eval(&all("true&&", 1_600)), Ok(false));
        assert_eq!(eval(&all("x||1==1&&", 1_000)), Ok(false));
    });
}

#[test]
fn errors_say_that_an_expression_is_too_deep_or_too_long() {
    on_a_small_stack(|| {
        for (open, inner, close) in
            [("(", "true", ")"), ("!", "true", ""), ("", "device", ".a"), ("", "1", "+1")]
        {
            let error = eval(&Construct(open, inner, close).filling(LONGEST)).unwrap_err();
            assert!(error.ends_with("the expression is nested too deep"), "{open}{inner}{close}: {error}");
        }
        let long = |length: usize| format!("true{}", " ".repeat(length - 4));
        assert_eq!(eval(&long(LONGEST)), Ok(true));
        assert_eq!(eval(&long(LONGEST + 1)), Err("found 10241 bytes, expected at most 10240".to_owned()));
        let deep = "cel.bind(x,[[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]],".repeat(20);
        let deep = format!("cel.bind(x,1,{deep}x==x{})", ")".repeat(20));
        assert_eq!(eval(&deep), Err("lists are nested too deep".to_owned()));
    });
}

/// Expressions of a few bytes that ask for much, and how long they may take: a hundred times what they do.
#[test]
fn costly_expressions_end_within_their_budget() {
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    let hundred = |body: &str| format!("{digits}.all(x,{digits}.all(y,{body}))");
    let doubled = |twice: &str, body: &str| {
        (0..60).fold(body.to_owned(), |body, _| format!("cel.bind(x,{twice},{body})"))
    };
    let costly = [
        hundred(r"!'a'.matches('(\\pL{50}){10}'+device.driver.matches('')?'a':'b')"),
        hundred(r"cel.bind(p,'\\w{20}'+['a','b'][x%2],!'a'.matches(p))"),
        hundred(r"'a'.matches(['\\w{20}','\\w{19}','\\w{18}'][x%3]+['a','b'][y%2])||true"),
        hundred(r"'a'.matches('(((a{30}){30}){30}){30}'+'a')||true"),
        hundred(&format!("!'{}'.matches('(a*)*(b|a){{500}}c')", "a".repeat(2_000))),
        r"'a'.matches('(?i)\\pL')||".repeat(400) + "true",
        r"'a'.matches('\\w{20}')||".repeat(400) + "true",
        format!("cel.bind(x,'a',{})", doubled("x+x", "true")),
        format!("cel.bind(x,[1],{})", doubled("x+x", "true")),
        format!("cel.bind(x,'a',{})", doubled("[x,x]", "true")),
        format!("cel.bind(x,'a',{})", doubled("x+x+x+x+x+x+x+x", "x==x||true")),
        format!("cel.bind(x,'{}',[1].all(y,{}x==''))", "a".repeat(9_000), "x+x+x+x+x+x+x+x!=''||".repeat(30)),
        hundred(&hundred(&hundred(&hundred("1/0==1||false||1/0==1")))),
        format!("{digits}.map(x,{digits}.map(x,{digits}.map(x,{digits}.map(x,{digits}.map(x,x)))))==[]"),
    ];
    for text in costly {
        let begun = Instant::now();
        let result = on_a_small_stack({
            let text = text.clone();
            move || eval(&text)
        });
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?} for {}: {result:?}", &text[..text.len().min(200)]);
    }
}

#[test]
fn steps_count_in_operands_that_do_not_decide_the_answer() {
    let costly = r"'a'.matches('\\w{20}'+device.driver)";
    let text = format!("{}||true", [costly; 20].join("||"));
    assert_eq!(eval(&text), Err("it takes too many steps".to_owned()));
    let text = format!("[{}].exists(x,{costly}||{costly}||x==1)", ["0"; 100].join(","));
    assert_eq!(eval(&text), Err("it takes too many steps".to_owned()));
}

#[test]
fn one_budget_holds_for_all_devices_of_a_search() {
    let read = Expression::parse("device.driver == 'x'", &mut Budget::new(1_000)).unwrap();
    let mut budget = Budget::new(1_000);
    let answers: Vec<bool> = (0..1_000).map_while(|_| read.selects(&Gpu, &mut budget).ok()).collect();
    assert!((50..500).contains(&answers.len()), "{}", answers.len());
    assert_eq!(budget.left(), 0);
    budget.add(1_000);
    assert_eq!(read.selects(&Gpu, &mut budget), Ok(false));
}

/// A regular expression that is made while evaluating is made once for all devices.
#[test]
fn a_regular_expression_is_compiled_once_for_all_devices() {
    let read = Expression::parse("'gpu'.matches('^g' + 'pu$')", &mut Budget::new(1_000)).unwrap();
    let mut budget = Budget::new(10_000);
    for _ in 0..100 {
        assert_eq!(read.selects(&Gpu, &mut budget), Ok(true));
    }
}

/// Random expressions, most of which can be read.
struct Random(Pcg64);

impl Random {
    fn pick(&mut self, of: &[&str]) -> String {
        of[self.0.random_range(0..of.len())].to_owned()
    }

    fn leaf(&mut self) -> String {
        self.pick(&[
            "true",
            "false",
            "1",
            "9223372036854775807",
            "'a'",
            "'a(b'",
            "'1.2.3'",
            "'10Gi'",
            "[]",
            "[1,2]",
            "x",
            "y",
            "device",
            "device.driver",
            "device.attributes",
            "device.attributes['gpu.example.com'].model",
            "optional.none()",
            "quantity('1e400')",
            "semver('1.2.3-a.b')",
            r"'\\w{100}'",
            "''",
            "null",
            "1.5",
            "{",
            "in",
        ])
    }

    fn grown(&mut self, inner: &str) -> String {
        let other = self.leaf();
        let shape = self.pick(&[
            "(A)",
            "[A]",
            "[A,B]",
            "!A",
            "-A",
            "A&&B",
            "B||A",
            "A+B",
            "A+A",
            "A*B",
            "A/B",
            "A==B",
            "A<B",
            "A in B",
            "B in A",
            "A?B:A",
            "B?A:B",
            "A.model",
            "A.?model",
            "A[B]",
            "B[A]",
            "A[?B]",
            "A.matches(B)",
            "B.matches(A)",
            "A.contains(B)",
            "size(A)",
            "A.size()",
            "has(A.b)",
            "quantity(A)",
            "semver(A)",
            "A.compareTo(B)",
            "optional.of(A)",
            "A.orValue(B)",
            "B.or(A)",
            "A.optMap(x,B)",
            "A.map(x,B)",
            "B.map(x,A)",
            "A.map(y,x,B)",
            "A.filter(x,B)",
            "B.all(x,A)",
            "A.exists(y,B)",
            "A.exists_one(x,A)",
            "cel.bind(x,A,B)",
            "cel.bind(y,B,A)",
            "cel.bind(x,A,x+x)",
            "A.value()",
            "A.lowerAscii()",
            "split(A)",
            "A)",
            "(A",
            "A B",
            "A ? B",
        ]);
        shape.replace('B', &other).replace('A', inner)
    }

    fn expression(&mut self) -> String {
        let mut text = self.leaf();
        let most = if self.0.random_bool(0.8) { 6 } else { 80 };
        for _ in 0..self.0.random_range(0..most) {
            let grown = self.grown(&text);
            if grown.len() > LONGEST {
                break;
            }
            text = grown;
        }
        if self.0.random_bool(0.1) {
            let joined = self.pick(&["&&", "||", "+", "==", ",", "."]);
            let count = LONGEST / (text.len() + joined.len());
            text = vec![text; count.max(1)].join(&joined);
        }
        text
    }
}

#[test]
fn random_expressions_come_to_an_answer() {
    on_a_small_stack(|| {
        let mut random = Random(Pcg64::seed_from_u64(7));
        let mut read = 0;
        for _ in 0..5_000 {
            let text = random.expression();
            let begun = Instant::now();
            let result = eval(&text);
            assert!(begun.elapsed() < Duration::from_secs(10), "{text}");
            read += usize::from(!result.is_err_and(|error| error.starts_with("column")));
        }
        assert!(read > 1_000, "{read} of them could be read");
    });
}
