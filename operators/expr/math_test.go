package expr

import (
	"math/big"
	"testing"
)

// TestRealsAgreeWithThemselves: exp and ln undo each other to far more digits
// than a decimal has.
func TestRealsAgreeWithThemselves(t *testing.T) {
	least := new(big.Float).SetMantExp(big.NewFloat(1), -realBits+40)
	for _, text := range []string{"1e-38", "0.00012", "0.5", "0.7", "1", "1.0000000000000000000000000001", "2", "9.99", "1e10", "12345678901234567890123456789012345678"} {
		x, _ := newReal().SetString(text)
		d := newReal().Quo(exp(ln(x)), x)
		if d.Sub(d, newReal().SetInt64(1)).Abs(d).Cmp(least) > 0 {
			t.Errorf("exp(ln(%s)) is off by %v of it", text, d)
		}
	}
	want := "2.302585092994045684017991454684364207601101488628772976033327900967572609677352480235997205089598298341967784042286248633409525465082806756666287369098781689482907208325554680843799894826233198528393505308965377732628846163366222287698219886746543667474404243274365155048934314939391479619404400222105101714174800368808401264708068556774321622835522011480466371565912137345074785694768346361679210180644507064800027"
	w, _, err := big.ParseFloat(want, 10, realBits, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	if d := newReal().Sub(ln10(), w); d.Abs(d).Cmp(least) > 0 {
		t.Errorf("ln 10 is off by %v", d)
	}
}
