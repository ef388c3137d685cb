package expr

func init() {
	describeForm("logic", "and", "condition and condition", "True if both are, false if one is not, else null. From left to right: what stands right of a false one never makes a row bad.",
		example{"true and false", "false"}, example{"null and false", "false"}, example{"null and true", "null"})
	describeForm("logic", "or", "condition or condition", "True if one is, false if neither is, else null. From left to right: what stands right of a true one never makes a row bad.",
		example{"false or true", "true"}, example{"null or true", "true"}, example{"null or false", "null"})
	describeForm("logic", "not", "not condition", "The opposite; null of null.", example{"not true", "false"}, example{"not null", "null"})

	const compared = " Null if one of them is null. Numbers of different types are compared as numbers, texts by bytes; an interval's month has 30 days and a day 24 hours."
	describe("comparison", "=", "Whether both are equal."+compared, example{"1 = 1.0", "true"}, example{"'a' = 'A'", "false"}, example{"null = null", "null"})
	describe("comparison", "<>", "Whether they differ; also written !=."+compared, example{"1 <> 2", "true"}, example{"1 != 1", "false"})
	describe("comparison", "<", "Whether the first is less."+compared, example{"'abc' < 'abd'", "true"})
	describe("comparison", "<=", "Whether the first is less or equal."+compared, example{"2 <= 2", "true"})
	describe("comparison", ">", "Whether the first is greater."+compared, example{"date '2024-02-01' > date '2024-01-31'", "true"})
	describe("comparison", ">=", "Whether the first is greater or equal."+compared, example{"interval '1 month' >= interval '30 days'", "true"})
	describeForm("comparison", "between", "value [not] between [symmetric] low and high", "Whether the value is neither less than the low one nor greater than the high one; symmetric takes them in either order.",
		example{"2 between 1 and 3", "true"}, example{"2 between symmetric 3 and 1", "true"}, example{"2 not between 1 and 3", "false"})
	describeForm("comparison", "in", "value [not] in (value, ...)", "Whether the value is one of a list. Null if it is not and the list holds a null.",
		example{"2 in (1, 2, 3)", "true"}, example{"4 in (1, null)", "null"}, example{"4 not in (1, 2)", "true"})
	describeForm("comparison", "is null", "value is [not] null", "Whether there is no value; also isnull and notnull.",
		example{"null is null", "true"}, example{"1 is not null", "true"})
	describeForm("comparison", "is true", "condition is [not] true | false | unknown", "Whether a condition is that; never null.",
		example{"null::bool is true", "false"}, example{"null::bool is unknown", "true"}, example{"false is not true", "true"})
	describeForm("comparison", "is distinct from", "value is [not] distinct from value", "As <>, with null as a value like others; never null.",
		example{"1 is distinct from null", "true"}, example{"null is distinct from null", "false"}, example{"1 is not distinct from 1", "true"})

	describeForm("conditional", "case", "case when condition then value [when ...] [else value] end, case value when value then value ... end",
		"The value of the first branch whose condition is true, else that behind else, else null. A branch that a row does not take never makes it bad.",
		example{"case when 1 > 2 then 'a' else 'b' end", "b"}, example{"case 2 when 1 then 'one' when 2 then 'two' end", "two"})
	describeForm("conditional", "coalesce", "coalesce(value, ...)", "The first value that is not null. What stands behind it is not looked at.",
		example{"coalesce(null, 2, 3)", "2"}, example{"coalesce(null, null)", "null"})
	describeForm("conditional", "nullif", "nullif(value, other)", "Null if both are equal, else the first.",
		example{"nullif(0, 0)", "null"}, example{"10 / nullif(0, 0)", "null"}, example{"nullif('a', 'b')", "a"})
	describeForm("conditional", "greatest", "greatest(value, ...)", "The greatest of the values; nulls are left out.", example{"greatest(1, null, 3, 2)", "3"})
	describeForm("conditional", "least", "least(value, ...)", "The least of the values; nulls are left out.", example{"least(1, null, 3, 2)", "1"})

	describeForm("cast", "cast", "cast(value as type), value::type, type 'text'",
		"The value in another type. Whole numbers are rounded, halves of decimals away from zero, of floats to the even number. A text must be as PostgreSQL writes that type. What does not fit makes the row bad.",
		example{"cast('42' as int)", "42"}, example{"2.5::int", "3"}, example{"'2024-01-31'::date + 1", "2024-02-01"})
}
