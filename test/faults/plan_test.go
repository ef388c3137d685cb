package faults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// fault is what happens to one request.
type fault string

const (
	none fault = ""

	unavailable fault = "503 before"   // nothing was done
	internal    fault = "500 before"   // nothing was done
	slowDown    fault = "slow down"    // 503 or 429 with Retry-After; nothing was done
	cutBefore   fault = "reset before" // nothing was done, no answer

	lost500   fault = "500 after" // done, and the answer says that it failed
	lost504   fault = "504 after"
	cutAfter  fault = "reset after" // done, no answer
	truncated fault = "truncated"   // done, half the answer
	shortened fault = "shortened"   // done, half the answer, and it says that this is all
	trickle   fault = "trickle"     // done, the answer comes in drops

	stale      fault = "stale"       // an answer of some time ago
	conflict   fault = "conflict"    // another writer commits first
	expired401 fault = "expired 401" // the token is good no longer
	expired419 fault = "expired 419"
	absent     fault = "absent" // HEAD or GET says 404, for a moment
)

// faultsOf says what may happen to an operation, and how often something does.
var faultsOf = map[string]struct {
	often  float64
	faults []fault
}{
	opToken:  {0.2, []fault{unavailable, internal, cutBefore, cutAfter, truncated, shortened, lost500, trickle}},
	opConfig: {0.15, []fault{unavailable, internal, cutBefore, cutAfter, truncated, shortened, slowDown, trickle}},
	opLoad:   {0.2, []fault{unavailable, internal, cutBefore, cutAfter, truncated, shortened, stale, stale, stale, trickle, slowDown, expired401, expired419}},
	opCommit: {0.5, []fault{unavailable, internal, cutBefore, lost500, lost504, cutAfter, truncated, shortened, conflict, conflict, conflict, trickle, slowDown, expired401, expired419}},
	opCreate: {0.25, []fault{unavailable, internal, cutBefore, lost500, cutAfter, truncated, trickle, expired401}},
	opLook:   {0.3, []fault{unavailable, cutBefore, absent}},
	opData:   {0.12, []fault{slowDown, slowDown, internal, cutBefore, cutAfter, lost500, trickle}},
	opMeta:   {0.12, []fault{slowDown, slowDown, internal, cutBefore, cutAfter, lost500}},
	opGet:    {0.12, []fault{slowDown, internal, cutBefore, truncated, trickle, absent}},
	opHead:   {0.3, []fault{slowDown, cutBefore, absent}},
	opDelete: {0.3, []fault{slowDown, internal, cutBefore, cutAfter, lost500}},
}

// mostInARow of one operation are spoilt, so that none fails for ever.
const mostInARow = 6

// plan chooses faults. It may be used by several proxies at once.
type plan struct {
	login bool // the catalog asks for a token
	rival func(path string)

	mu    sync.Mutex
	rng   *rand.Rand
	on    bool
	left  int // faults still to come
	row   map[string]int
	count map[fault]int
	byOp  map[string]int
	log   strings.Builder
	began time.Time

	rivals sync.WaitGroup // commits of the rival that a request waits for
}

func newPlan(seed uint64, faults int) *plan {
	return &plan{rng: rand.New(rand.NewPCG(seed, 6)), left: faults, row: map[string]int{}, count: map[fault]int{}, byOp: map[string]int{}, began: time.Now()}
}

// next chooses what happens to a request. For a conflict it has happened when it
// returns.
func (p *plan) next(x *proxy, op string, r *http.Request) fault {
	f := p.choose(x, op, r)
	if f == conflict {
		p.rival(r.URL.Path)
		p.rivals.Done()
	}
	return f
}

func (p *plan) choose(x *proxy, op string, r *http.Request) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := faultsOf[op]
	p.byOp[op]++
	if !p.on || p.left == 0 || p.row[op] >= mostInARow || p.rng.Float64() >= of.often {
		p.row[op] = 0
		return none
	}
	for range 20 {
		f := of.faults[p.rng.IntN(len(of.faults))]
		switch {
		case f == stale && !x.hasFormer(r.URL.Path),
			f == conflict && p.rival == nil,
			(f == expired401 || f == expired419) && !p.login:
			continue
		}
		p.row[op]++
		p.left--
		p.count[f]++
		if f == conflict {
			p.rivals.Add(1)
		}
		return f
	}
	return none
}

// turn switches the faults on or off.
func (p *plan) turn(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = on
}

// end switches the faults off and waits until no request waits for the rival any
// more, who has other pipelines to serve.
func (p *plan) end() {
	p.turn(false)
	p.rivals.Wait()
}

// remaining is how many faults are still to come.
func (p *plan) remaining() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// counts are the faults so far, and the operations.
func (p *plan) counts() (map[fault]int, map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, o := map[fault]int{}, map[string]int{}
	for k, v := range p.count {
		f[k] = v
	}
	for k, v := range p.byOp {
		o[k] = v
	}
	return f, o
}

func (p *plan) trace(op string, f fault, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what := string(f)
	if f == none {
		what = "-"
	}
	fmt.Fprintf(&p.log, "%7.3f %-12s %-12s %s %s\n", time.Since(p.began).Seconds(), op, what, r.Method, r.URL.Path)
}

// traced is the end of what happened, for a test that failed.
func (p *plan) traced() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.log.String()
	return s[max(0, len(s)-20000):]
}

// before does what happens instead of carrying the request out.
func (f fault) before(w http.ResponseWriter, r *http.Request) bool {
	switch f {
	case unavailable:
		reject(w, http.StatusServiceUnavailable, "ServiceUnavailableException", "spoilt by the test")
	case internal:
		reject(w, http.StatusInternalServerError, "InternalServerError", "spoilt by the test")
	case slowDown:
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[len(r.URL.Path)%2])
		fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
	case cutBefore:
		cut(w)
	case absent:
		w.WriteHeader(http.StatusNotFound)
		if r.Method != http.MethodHead {
			fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>`)
		}
	default:
		return false
	}
	return true
}

// after hands the answer on, or what is made of it.
func (f fault) after(w http.ResponseWriter, _ *http.Request, a answer) {
	switch f {
	case lost500:
		reject(w, http.StatusInternalServerError, "InternalServerError", "spoilt by the test: it was done")
	case lost504:
		reject(w, http.StatusGatewayTimeout, "GatewayTimeout", "spoilt by the test: it was done")
	case cutAfter:
		cut(w)
	case truncated:
		a.give(w, len(a.body)/2, false, 1)
	case shortened:
		a.give(w, len(a.body)/2, true, 1)
	case trickle:
		a.give(w, len(a.body), true, 12)
	default:
		a.give(w, len(a.body), true, 1)
	}
}

// list is a map as text, by name.
func list[K ~string](m map[K]int) string {
	var out []string
	for k, n := range m {
		out = append(out, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
