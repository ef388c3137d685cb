package expr

import "strings"

// What is written in words of the standard: overlay, normalize.

// overlay reads overlay(s placing t from 2 for 3) and overlay(s, t, 2, 3).
func (p *parser) overlay(pos int) (*ast, error) {
	s, err := p.expr()
	if err != nil {
		return nil, err
	}
	args := []*ast{s}
	if !p.word("placing") {
		if err := p.needOp(","); err != nil {
			return nil, err
		}
		rest, err := p.args()
		return p.node(opCall, pos, "overlay", append(args, rest...)...), err
	}
	for _, word := range []string{"", "from", "for"} {
		if word == "for" && !p.word("for") {
			break
		}
		if word == "from" {
			if err := p.needWord("from"); err != nil {
				return nil, err
			}
		}
		x, err := p.expr()
		if err != nil {
			return nil, err
		}
		args = append(args, x)
	}
	if err := p.needOp(")"); err != nil {
		return nil, err
	}
	return p.node(opCall, pos, "overlay", args...), nil
}

var normalForms = map[string]bool{"nfc": true, "nfd": true, "nfkc": true, "nfkd": true}

// normalize reads normalize(s) and normalize(s, NFC).
func (p *parser) normalize(pos int) (*ast, error) {
	s, err := p.expr()
	if err != nil {
		return nil, err
	}
	form := p.node(opString, pos, "NFC")
	if p.op(",") {
		t := p.take()
		if t.kind != tokIdent && t.kind != tokString || !normalForms[strings.ToLower(t.text)] {
			return nil, p.unexpected(t, "NFC, NFD, NFKC or NFKD")
		}
		form = p.node(opString, t.pos, strings.ToUpper(t.text))
	}
	if err := p.needOp(")"); err != nil {
		return nil, err
	}
	return p.node(opCall, pos, "normalize", s, form), nil
}

// normalized is a is normalized, t being the word or the form before it.
func (p *parser) normalized(pos int, t token, a *ast) *ast {
	form := "NFC"
	if t.text != "normalized" {
		form = strings.ToUpper(t.text)
	}
	return p.node(opCall, pos, "is_normalized", a, p.node(opString, t.pos, form))
}
