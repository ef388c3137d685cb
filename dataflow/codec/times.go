package codec

// Times are read by hand, byte by byte: RFC 3339, no more and no less. Digits
// below the microsecond are cut off.

const (
	microsPerSecond = 1_000_000
	secondsPerDay   = 86_400
)

// two reads two digits, -1 if they are none.
func two(b []byte, i int) int {
	h, l := b[i]-'0', b[i+1]-'0'
	if h > 9 || l > 9 {
		return -1
	}
	return int(h)*10 + int(l)
}

var monthDays = [13]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// parseDate reads YYYY-MM-DD at the beginning of b, as days since 1970.
func parseDate(b []byte) (days int, ok bool) {
	if len(b) < 10 || b[4] != '-' || b[7] != '-' {
		return 0, false
	}
	c, y, m, d := two(b, 0), two(b, 2), two(b, 5), two(b, 8)
	if c < 0 || y < 0 || m < 1 || m > 12 || d < 1 {
		return 0, false
	}
	y += c * 100
	last := monthDays[m]
	if m == 2 && y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		last = 29
	}
	if d > last {
		return 0, false
	}
	// Days of the civil calendar, years beginning in March.
	if m <= 2 {
		y--
		m += 12
	}
	era := y / 400
	if y < 0 {
		era = -1
	}
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + d - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468, true
}

// parseClock reads HH:MM:SS with an optional fraction at the beginning of b, as
// microseconds. n is its length, 0 if there is none.
func parseClock(b []byte) (micros int64, n int) {
	if len(b) < 8 || b[2] != ':' || b[5] != ':' {
		return 0, 0
	}
	h, m, s := two(b, 0), two(b, 3), two(b, 6)
	if h < 0 || h > 23 || m < 0 || m > 59 || s < 0 || s > 59 {
		return 0, 0
	}
	micros = int64(h*3600+m*60+s) * microsPerSecond
	if len(b) == 8 || b[8] != '.' {
		return micros, 8
	}
	unit := int64(microsPerSecond)
	n = 9
	for ; n < len(b) && b[n]-'0' <= 9; n++ {
		unit /= 10
		micros += int64(b[n]-'0') * unit
	}
	if n == 9 {
		return 0, 0
	}
	return micros, n
}

// parseTimestamp reads an RFC 3339 time as microseconds since 1970. zoned times
// need an offset, others must not have one.
func parseTimestamp(b []byte, zoned bool) (micros int64, ok bool) {
	days, ok := parseDate(b)
	if !ok || len(b) < 19 || b[10]|0x20 != 't' && b[10] != ' ' {
		return 0, false
	}
	micros, n := parseClock(b[11:])
	if n == 0 {
		return 0, false
	}
	micros += int64(days) * secondsPerDay * microsPerSecond
	b = b[11+n:]
	if !zoned {
		return micros, len(b) == 0
	}
	if len(b) == 1 && b[0]|0x20 == 'z' {
		return micros, true
	}
	if len(b) != 6 || b[0] != '+' && b[0] != '-' || b[3] != ':' {
		return 0, false
	}
	h, m := two(b, 1), two(b, 4)
	if h < 0 || h > 23 || m < 0 || m > 59 {
		return 0, false
	}
	off := int64(h*3600+m*60) * microsPerSecond
	if b[0] == '-' {
		off = -off
	}
	return micros - off, true
}

// parseUUID reads the canonical form of a UUID into two words as they lie in
// memory.
func parseUUID(b []byte) (id [16]byte, ok bool) {
	if len(b) != 36 || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return id, false
	}
	n := 0
	for i := 0; i < 36; {
		if b[i] == '-' && (i == 8 || i == 13 || i == 18 || i == 23) {
			i++
			continue
		}
		h, l := hexDigit(b[i]), hexDigit(b[i+1])
		if h > 15 || l > 15 {
			return id, false
		}
		id[n] = h<<4 | l
		n++
		i += 2
	}
	return id, true
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}
