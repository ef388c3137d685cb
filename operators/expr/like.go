package expr

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

func init() {
	s := kString
	for _, f := range []struct {
		names []string
		fold  bool
		not   bool
	}{{[]string{"like", "~~"}, false, false}, {[]string{"ilike", "~~*"}, true, false}, {[]string{"!~~"}, false, true}, {[]string{"!~~*"}, true, true}} {
		for _, name := range f.names {
			register(function{name: name, args: []kind{s, s}, ret: kBool, fails: true, kernel: likeKernel(f.fold, f.not)},
				function{name: name, args: []kind{s, s, s}, ret: kBool, fails: true, kernel: likeKernel(f.fold, f.not)})
		}
	}
}

// pattern is a compiled pattern of like.
type pattern struct {
	text, escape []byte
	known        bool
	bad          string
	items        []likeItem
	// simple patterns: plain, plain%, %plain, %plain% without anything to fold.
	simple     bool
	plain      []byte
	head, tail bool // % stands before, behind
}

type likeItem struct {
	r    rune
	kind byte // 'c' the character r, '_' any one, '%' any number, 'e' an escape at the end
}

// compile reads a pattern; bad says what is wrong with it.
func (p *pattern) compile(text, escape string, fold bool) {
	*p = pattern{text: append(p.text[:0], text...), escape: append(p.escape[:0], escape...), known: true, items: p.items[:0], plain: p.plain[:0]}
	esc := rune(-1)
	if escape != "" {
		r, n := utf8.DecodeRuneInString(escape)
		if n != len(escape) {
			p.bad = "the escape must be empty or one character"
			return
		}
		esc = r
	}
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			p.add(r, 'c', fold)
			escaped = false
		case r == esc:
			escaped = true
		case r == '%':
			if n := len(p.items); n == 0 || p.items[n-1].kind != '%' {
				p.add(r, '%', false)
			}
		case r == '_':
			p.add(r, '_', false)
		default:
			p.add(r, 'c', fold)
		}
	}
	if escaped {
		p.add(esc, 'e', false)
	}
	p.simplify(fold)
}

func (p *pattern) add(r rune, kind byte, fold bool) {
	if fold {
		r = unicode.ToLower(r)
	}
	p.items = append(p.items, likeItem{r, kind})
}

func (p *pattern) simplify(fold bool) {
	items := p.items
	if fold {
		return
	}
	if len(items) > 0 && items[0].kind == '%' {
		p.head, items = true, items[1:]
	}
	if len(items) > 0 && items[len(items)-1].kind == '%' {
		p.tail, items = true, items[:len(items)-1]
	}
	for _, it := range items {
		if it.kind != 'c' {
			return
		}
		p.plain = utf8.AppendRune(p.plain, it.r)
	}
	p.simple = true
	if len(p.items) == 1 && p.head {
		p.tail = true
	}
}

// match says whether s fits. An escape that ends the pattern is a mistake only where
// s gets so far, as in PostgreSQL.
func (p *pattern) match(s string, fold bool) (fits, mistake bool) {
	if p.simple {
		plain := view(p.plain)
		switch {
		case p.head && p.tail:
			return strings.Contains(s, plain), false
		case p.head:
			return strings.HasSuffix(s, plain), false
		case p.tail:
			return strings.HasPrefix(s, plain), false
		}
		return s == plain, false
	}
	// On a mismatch go back to the last % and let it take one more character.
	i, k := 0, 0
	backI, backK := -1, 0
	for i < len(s) {
		r, n := rune(s[i]), 1
		if r >= 0x80 {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		if fold {
			r = unicode.ToLower(r)
		}
		switch {
		case k < len(p.items) && p.items[k].kind == '%':
			backI, backK = i, k
			k++
			continue
		case k < len(p.items) && (p.items[k].kind == '_' || p.items[k].kind == 'c' && p.items[k].r == r):
			i += n
			k++
			continue
		case k < len(p.items) && p.items[k].kind == 'e':
			return false, true
		case backI < 0:
			return false, false
		}
		_, n = utf8.DecodeRuneInString(s[backI:])
		backI += n
		i, k = backI, backK+1
	}
	for k < len(p.items) && p.items[k].kind == '%' {
		k++
	}
	return k == len(p.items), k < len(p.items) && p.items[k].kind == 'e' && s != "" && p.behindAny(k)
}

// behindAny says whether nothing but _ stands between item k and a % before it.
func (p *pattern) behindAny(k int) bool {
	for k--; k >= 0 && p.items[k].kind == '_'; k-- {
	}
	return k >= 0 && p.items[k].kind == '%'
}

// likeKernel keeps the pattern of the row before, compiled: it is mostly a
// constant.
func likeKernel(fold, not bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		p, ok := c.slot.cache.(*pattern)
		if !ok {
			p = &pattern{}
			c.slot.cache = p
		}
		mx, mp := a[0].mask(), a[1].mask()
		b := growBits(out, c.n)
		b.fill(0)
		for i := range c.n {
			if !c.counts(i) {
				continue
			}
			escape := `\`
			if len(a) > 2 {
				escape = a[2].text(i & a[2].mask())
			}
			if text := a[1].text(i & mp); !p.known || string(p.text) != text || string(p.escape) != escape {
				p.compile(text, escape, fold)
			}
			if p.bad != "" {
				c.fail(i, badArgument, "%s", p.bad)
				continue
			}
			fits, mistake := p.match(a[0].text(i&mx), fold)
			if mistake {
				c.fail(i, badArgument, "the pattern must not end with the escape character")
			}
			if fits != not {
				b.set(i)
			}
		}
	}
}
