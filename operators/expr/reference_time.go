package expr

func init() {
	describe("date/time", "+", "A date and days give a date; a date and a time a timestamp; a date, a timestamp or a time and an interval what lies so much later. Months first, cut to the last day of the month, then days, then the time.",
		example{"date '2024-01-31' + 1", "2024-02-01"}, example{"timestamp '2024-01-31 10:00' + interval '1 month'", "2024-02-29 10:00:00"})
	describe("date/time", "-", "Two dates give days, two timestamps or times an interval of days and time; with an interval what lies so much earlier.",
		example{"date '2024-03-01' - date '2024-02-01'", "29"}, example{"timestamp '2024-03-01 10:00' - timestamp '2024-02-28 09:30'", "2 days 00:30:00"})
	describe("date/time", "*", "An interval so many times.", example{"interval '1 hour' * 2.5", "02:30:00"})
	describe("date/time", "/", "A part of an interval.", example{"interval '1 hour' / 1.5", "00:40:00"})
	describe("date/time", "date_bin", "The start of the stride that a timestamp lies in, counted from an origin. A stride has no months.",
		example{"date_bin('15 minutes', timestamp '2024-02-11 15:44:17', timestamp '2001-01-01')", "2024-02-11 15:30:00"})
	describe("date/time", "date_trunc", "A timestamp or an interval cut to a unit: microseconds, milliseconds, second, minute, hour, day, week, month, quarter, year, decade, century, millennium. A third operand names the zone whose days and hours are meant; else it is UTC.",
		example{"date_trunc('hour', timestamp '2024-02-16 20:38:40')", "2024-02-16 20:00:00"},
		example{"date_trunc('day', timestamptz '2024-02-16 20:38:40+00', 'Asia/Tokyo')", "2024-02-16 15:00:00+00"},
		example{"date_trunc('hour', interval '2 days 03:25:45')", "2 days 03:00:00"})
	describeForm("date/time", "extract", "extract(field from value)",
		"A field of a date, time, timestamp or interval, as a decimal: microseconds, milliseconds, second, minute, hour, day, dow (Sunday is 0), isodow (Sunday is 7), doy, week, month, quarter, year, isoyear, decade, century, millennium, julian, epoch (seconds since 1970), timezone, timezone_hour, timezone_minute.",
		example{"extract(hour from timestamp '2024-02-16 20:38:40')", "20"}, example{"extract(dow from date '2024-02-16')", "5"}, example{"extract(epoch from interval '1 day')", "86400.000000"})
	describe("date/time", "date_part", "As extract, with the field as a text and a float as the result.",
		example{"date_part('hour', timestamp '2024-02-16 20:38:40')", "20"}, example{"date_part('month', interval '2 years 3 months')", "3"})
	describe("date/time", "make_date", "The date of a year, month and day; negative years are BC.", example{"make_date(2024, 7, 15)", "2024-07-15"})
	describe("date/time", "timezone", "The operator at time zone as a function: the zone is a name, an abbreviation or an interval east of UTC.",
		example{"timezone('Europe/Berlin', timestamptz '2024-07-01 12:00+00')", "2024-07-01 14:00:00"})
	describeForm("date/time", "at time zone", "value at time zone zone",
		"What clocks of the zone show at a timestamptz, as timestamp; or when clocks of the zone show a timestamp, as timestamptz. A time that a zone leaves out is read with the offset from before, one that comes twice as standard time.",
		example{"timestamptz '2024-07-01 12:00+00' at time zone 'Europe/Berlin'", "2024-07-01 14:00:00"},
		example{"timestamp '2024-07-01 12:00' at time zone 'America/New_York'", "2024-07-01 16:00:00+00"})
}
