// Package expr computes columns from the fields of a record: rating >= 4,
// tips / fare, city in ("Rome", "Bern") and not missing(`zip code`).
//
//	expression  = and { "or" and }
//	and         = not { "and" not }
//	not         = "not" not | comparison
//	comparison  = sum [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) sum | [ "not" ] "in" list ]
//	sum         = product { ( "+" | "-" ) product }
//	product     = unary { ( "*" | "/" | "%" ) unary }
//	unary       = "-" unary | number | text | field | call | "(" expression ")"
//	list        = "(" literal { "," literal } ")"
//
// A field is a name of letters, digits, _ and . or any name between backticks. A text is
// between " or '. The functions are log (natural), floor, abs, min and max (of two or
// more), missing (is there no value?), if (condition, then, else) and seconds (field, format),
// which reads a date as seconds since 1970 in a format of package date: seconds(time, "iso").
//
// A field is a number, unless it is compared with a text or with another field: then
// both are texts, and only == and != are possible. Numbers are exact up to 2^53; ==, != and
// in compare a field with a larger integer as texts, and the other comparisons as numbers. Conditions are 1 or 0 as numbers.
//
// A result computed from a missing value is missing. So are a quotient by 0 and the
// logarithm of a number that is not positive. However, "false and missing" is false, and
// "true or missing" is true.
//
// Parse checks types, and compiles to closures: a record costs a call per operator and
// allocates nothing. An Expr does not change and may be shared.
package expr
