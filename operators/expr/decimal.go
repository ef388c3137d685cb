package expr

import (
	"math/bits"
	"strconv"
)

// dec is the unscaled value of a decimal: 128 bits, two's complement, in the
// layout of Arrow's Decimal128. Its type says where the point stands.
type dec struct {
	lo uint64
	hi int64
}

func decOf(x int64) dec { return dec{uint64(x), x >> 63} }

// small says whether d fits an int64.
func (d dec) small() bool { return d.hi == int64(d.lo)>>63 }

func (d dec) neg() dec {
	lo, borrow := bits.Sub64(0, d.lo, 0)
	hi, _ := bits.Sub64(0, uint64(d.hi), borrow)
	return dec{lo, int64(hi)}
}

func (d dec) zero() bool { return d.lo|uint64(d.hi) == 0 }

// abs returns the magnitude as an unsigned number and the sign.
func (d dec) abs() (hi, lo uint64, negative bool) {
	if d.hi < 0 {
		d = d.neg()
		return uint64(d.hi), d.lo, true
	}
	return uint64(d.hi), d.lo, false
}

func signed(hi, lo uint64, negative bool) dec {
	d := dec{lo, int64(hi)}
	if negative {
		return d.neg()
	}
	return d
}

func (d dec) cmp(e dec) int {
	switch {
	case d.hi < e.hi || d.hi == e.hi && d.lo < e.lo:
		return -1
	case d == e:
		return 0
	}
	return 1
}

func (d dec) less(e dec) bool { return d.hi < e.hi || d.hi == e.hi && d.lo < e.lo }

// pow10 holds 10^0 to 10^38.
var pow10 = func() (t [39]dec) {
	t[0] = dec{lo: 1}
	for i := 1; i < len(t); i++ {
		h, l := bits.Mul64(t[i-1].lo, 10)
		t[i] = dec{l, int64(h) + t[i-1].hi*10}
	}
	return
}()

// fits says whether d has at most p digits.
func (d dec) fits(p int32) bool {
	hi, lo, _ := d.abs()
	m := pow10[p]
	return hi < uint64(m.hi) || hi == uint64(m.hi) && lo < m.lo
}

// add returns d + e; ok is false if it has more than 38 digits.
func (d dec) add(e dec) (dec, bool) {
	lo, carry := bits.Add64(d.lo, e.lo, 0)
	hi, _ := bits.Add64(uint64(d.hi), uint64(e.hi), carry)
	r := dec{lo, int64(hi)}
	if (d.hi^r.hi)&(e.hi^r.hi) < 0 {
		return r, false
	}
	return r, r.fits(38)
}

// mul returns d * e; ok is false if it has more than 38 digits.
func (d dec) mul(e dec) (dec, bool) {
	ah, al, an := d.abs()
	bh, bl, bn := e.abs()
	if ah|bh == 0 {
		hi, lo := bits.Mul64(al, bl)
		r := signed(hi, lo, an != bn)
		return r, hi < uint64(pow10[38].hi) || hi>>63 == 0 && r.fits(38)
	}
	if ah != 0 && bh != 0 {
		return dec{}, false // at least 2^128
	}
	if bh != 0 {
		ah, al, bl = bh, bl, al
	}
	hi, lo := bits.Mul64(al, bl)
	over, mid := bits.Mul64(ah, bl)
	hi, carry := bits.Add64(hi, mid, 0)
	if over != 0 || carry != 0 || hi>>63 != 0 {
		return dec{}, false
	}
	r := signed(hi, lo, an != bn)
	return r, r.fits(38)
}

// quo returns the quotient of magnitudes cut to a whole number, and the rest.
func quo(ah, al, bh, bl uint64) (qh, ql, rh, rl uint64) {
	if bh == 0 {
		qh, rh = ah/bl, ah%bl
		ql, rl = bits.Div64(rh, al, bl)
		return qh, ql, 0, rl
	}
	return longQuo(ah, al, bh, bl)
}

// longQuo is quo for a divisor of more than 64 bits: the quotient has less, so
// shift and subtract.
func longQuo(ah, al, bh, bl uint64) (qh, ql, rh, rl uint64) {
	shift := bits.LeadingZeros64(bh) - bits.LeadingZeros64(ah|1)
	if ah == 0 || shift < 0 {
		return 0, 0, ah, al
	}
	dh, dl := bh, bl
	if shift > 0 {
		dh = bh<<uint(shift) | bl>>(64-uint(shift))
		dl = bl << uint(shift)
	}
	for range shift + 1 {
		ql <<= 1
		l, b := bits.Sub64(al, dl, 0)
		h, b := bits.Sub64(ah, dh, b)
		if b == 0 {
			ah, al, ql = h, l, ql|1
		}
		dl = dl>>1 | dh<<63
		dh >>= 1
	}
	return 0, ql, ah, al
}

// half says whether r is at least half of b, both magnitudes.
func half(rh, rl, bh, bl uint64) bool {
	l, b := bits.Sub64(bl, rl, 0)
	h, _ := bits.Sub64(bh, rh, b)
	return rh > h || rh == h && rl >= l // r >= b - r
}

// rescale moves the point from scale s to scale t, rounding half away from zero.
func (d dec) rescale(s, t int32) (dec, bool) {
	switch {
	case t > s:
		if t-s > 38 {
			return dec{}, d.zero()
		}
		return d.mul(pow10[t-s])
	case t < s:
		return d.shrink(s-t, true), true
	}
	return d, true
}

// shrink divides by 10^k; round asks for half away from zero, else it cuts.
func (d dec) shrink(k int32, round bool) dec {
	if k > 38 {
		return dec{}
	}
	ah, al, neg := d.abs()
	p := pow10[k]
	qh, ql, rh, rl := quo(ah, al, uint64(p.hi), p.lo)
	if round && k > 0 && half(rh, rl, uint64(p.hi), p.lo) {
		var c uint64
		ql, c = bits.Add64(ql, 1, 0)
		qh += c
	}
	return signed(qh, ql, neg)
}

// div returns d * 10^k / e rounded half away from zero; e is not 0.
func (d dec) div(e dec, k int32) (dec, bool) {
	ah, al, an := d.abs()
	bh, bl, bn := e.abs()
	if k <= 38 {
		n, ok := signed(ah, al, false).mul(pow10[k])
		if !ok {
			return d.divBig(e, k)
		}
		qh, ql, rh, rl := quo(uint64(n.hi), n.lo, bh, bl)
		if half(rh, rl, bh, bl) {
			var c uint64
			ql, c = bits.Add64(ql, 1, 0)
			qh += c
		}
		r := signed(qh, ql, an != bn)
		return r, r.fits(38)
	}
	return d.divBig(e, k)
}

// divBig is div for what does not fit 128 bits on the way.
func (d dec) divBig(e dec, k int32) (dec, bool) {
	w := wides.Get().(*wide)
	defer wides.Put(w)
	negative := e.hi < 0
	if negative {
		d, e = d.neg(), e.neg()
	}
	w.a.Mul(setBig(&w.t, d), bigTens[k])
	return decOfBig(w.quoHalf(&w.b, &w.a, setBig(&w.c, e)))
}

// rem returns the rest of d / e with the sign of d; e is not 0.
func (d dec) rem(e dec) dec {
	ah, al, an := d.abs()
	bh, bl, _ := e.abs()
	_, _, rh, rl := quo(ah, al, bh, bl)
	return signed(rh, rl, an)
}

// compareScaled compares a of scale s with b of scale t, exactly.
func compareScaled(a dec, s int32, b dec, t int32) int {
	if s == t {
		return a.cmp(b)
	}
	if s > t {
		return -compareScaled(b, t, a, s)
	}
	if x, ok := a.rescale(s, t); ok {
		return x.cmp(b)
	}
	if a.hi < 0 { // a has more digits than any b
		return -1
	}
	return 1
}

// appendDec writes d with s digits behind the point.
func appendDec(dst []byte, d dec, s int32) []byte {
	hi, lo, neg := d.abs()
	if neg {
		dst = append(dst, '-')
	}
	var buf [48]byte
	at := len(buf)
	for n := int32(0); hi|lo != 0 || n <= s; n++ {
		if n == s && s > 0 {
			at--
			buf[at] = '.'
		}
		var r uint64
		hi, lo, _, r = quo(hi, lo, 0, 10)
		at--
		buf[at] = byte('0' + r)
	}
	return append(dst, buf[at:]...)
}

// float converts d of scale s, rounded correctly.
func (d dec) float(s int32) float64 {
	if d.small() && s <= 22 {
		if x := int64(d.lo); x > -1<<53 && x < 1<<53 {
			return float64(x) / floatPow10[s]
		}
	}
	var buf [64]byte
	f, _ := strconv.ParseFloat(view(appendDec(buf[:0], d, s)), 64)
	return f
}

var floatPow10 = func() (t [23]float64) {
	t[0] = 1
	for i := 1; i < len(t); i++ {
		t[i] = t[i-1] * 10
	}
	return
}()
