package expr

func init() {
	describe("mathematics", "+", "The sum. The smaller whole number type gives way to the greater, whole numbers to decimals, decimals to floats. Too great a result makes the row bad.",
		example{"2 + 3", "5"}, example{"0.1 + 0.25", "0.35"}, example{"1e0::float8 + 0.5", "1.5"})
	describe("mathematics", "-", "The difference.",
		example{"2 - 3", "-1"}, example{"1.00 - 0.1", "0.90"})
	describe("mathematics", "*", "The product. Decimals keep all their places.",
		example{"7 * 6", "42"}, example{"1.5 * 0.25", "0.375"})
	describe("mathematics", "/", "The quotient. Whole numbers are divided without a rest, toward zero; decimals to 16 places or those of the operands. Division by zero makes the row bad.",
		example{"7 / 2", "3"}, example{"-7 / 2", "-3"}, example{"7 / 2.0", "3.5000000000000000"})
	describe("mathematics", "%", "What a division without a rest leaves over, with the sign of the first operand.",
		example{"7 % 3", "1"}, example{"-7 % 3", "-1"}, example{"7.5 % 2", "1.5"})
	describe("mathematics", "mod", "The same as the operator %.", example{"mod(7, 3)", "1"})
	describe("mathematics", "unary +", "The value itself.", example{"+ 5", "5"})
	describe("mathematics", "unary -", "The value with the other sign.", example{"- (2 + 3)", "-5"})
	describe("mathematics", "unary @", "The value without its sign, as abs.", example{"@ -5", "5"})
	describe("mathematics", "abs", "The value without its sign.", example{"abs(-17.4)", "17.4"})
	describe("mathematics", "ceil", "The smallest whole number that is not less.",
		example{"ceil(42.2)", "43"}, example{"ceil(-42.8)", "-42"})
	describe("mathematics", "ceiling", "The same as ceil.", example{"ceiling(95.3)", "96"})
	describe("mathematics", "floor", "The greatest whole number that is not more.",
		example{"floor(42.8)", "42"}, example{"floor(-42.8)", "-43"})
	describe("mathematics", "round", "The value rounded to a whole number, or to some places of a decimal; negative ones are before the point. Halves of decimals go away from zero, of floats to the even number.",
		example{"round(42.5)", "43"}, example{"round(42.4382, 2)", "42.44"}, example{"round(42.5::float8)", "42"})
	describe("mathematics", "trunc", "The value without its fraction, or with so many places.",
		example{"trunc(-42.8)", "-42"}, example{"trunc(42.4382, 2)", "42.43"})
	describe("mathematics", "sign", "-1, 0 or 1.", example{"sign(-8.4)", "-1"})
}
