package faults

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"frazil/dataflow/flowtest/program"
)

// What is planted in a table that was right is found: a row too few, a row twice, a
// row of nobody, a file that is gone.
func TestTheJudgeFindsWhatIsPlanted(t *testing.T) {
	program.Long(t)
	x := newTrial(t, newWorld(t), 0)
	x.feed.put()
	x.place.ToEnd()
	table := x.tables[0]
	judge := func(want map[string]bool) verdict {
		t.Helper()
		v, err := x.w.judge.compare(table, want, map[string]bool{rivalRow(table, -3): true})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	want := x.feed.raw()
	if v := judge(want); !v.good() || v.files.Named == 0 {
		t.Fatalf("a good table: %+v", v)
	}
	x.append(table, 1)
	x.append(table, 1)
	want[rivalRow(table, -1)], want[rivalRow(table, -2)] = true, true
	if v := judge(want); !v.good() {
		t.Fatalf("with rows of the rival: %+v", v)
	}
	want[rivalRow(table, -4)] = true
	if v := judge(want); v.lost != 2 || v.doubled != 0 || v.foreign != 0 { // each reader misses it
		t.Errorf("a row too few: %+v", v)
	}
	delete(want, rivalRow(table, -4))
	x.rivals = 1
	x.append(table, 1)
	if v := judge(want); v.doubled != 2 || v.lost != 0 || v.foreign != 0 {
		t.Errorf("a row twice: %+v", v)
	}
	delete(want, rivalRow(table, -1))
	if v := judge(want); v.foreign != 2 || v.doubled != 2 {
		t.Errorf("a row of nobody: %+v", v)
	}
	var gone struct{ OK bool }
	if err := x.w.judge.ask(&gone, "lose", table, nil); err != nil || !gone.OK {
		t.Fatal(err)
	}
	var f files
	if err := x.w.judge.ask(&f, "files", table, nil); err != nil || len(f.Missing) != 1 {
		t.Errorf("a file that is gone: %+v, %v", f, err)
	}
}

// Each fault does what its name says: the server has done the work or not, and the
// client gets what it should.
func TestEachFaultIsWhatItSays(t *testing.T) {
	const whole = `{"whole":"answer"}`
	for _, tc := range []struct {
		f     fault
		done  int64 // requests that reached the server
		sees  string
		error bool
	}{
		{none, 1, "200 " + whole, false}, {unavailable, 0, "503", false}, {internal, 0, "500", false}, {slowDown, 0, "SlowDown", false},
		{cutBefore, 0, "", true}, {absent, 0, "404", false}, {lost500, 1, "500", false}, {lost504, 1, "504", false}, {cutAfter, 1, "", true},
		{truncated, 1, "", true}, {shortened, 1, "200 " + whole[:len(whole)/2], false}, {trickle, 1, "200 " + whole, false},
	} {
		t.Run(string(tc.f), func(t *testing.T) {
			var done atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				done.Add(1)
				body, _ := io.ReadAll(r.Body)
				if string(body) != "question" || r.Host != "signed.example" {
					t.Errorf("the server got %q for %s", body, r.Host)
				}
				fmt.Fprint(w, whole)
			}))
			defer server.Close()
			p := newPlan(1, 1)
			p.on = true
			x := newProxy(t, "store", server.URL, p)
			saved := faultsOf[opOther]
			defer func() { faultsOf[opOther] = saved }()
			if tc.f != none {
				faultsOf[opOther] = struct {
					often  float64
					faults []fault
				}{1, []fault{tc.f}}
			}
			req, err := http.NewRequest(http.MethodPost, x.URL+"/bkt?delete", strings.NewReader("question"))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = "signed.example"
			text := ""
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				var body []byte
				body, err = io.ReadAll(resp.Body)
				resp.Body.Close()
				text = fmt.Sprintf("%d %s", resp.StatusCode, body)
			}
			if (err != nil) != tc.error || !tc.error && !strings.Contains(text, tc.sees) {
				t.Errorf("the client sees %q and %v, want %q, error %v", text, err, tc.sees, tc.error)
			}
			if n := done.Load(); n != tc.done {
				t.Errorf("the server has worked %d times, want %d", n, tc.done)
			}
			if count, _ := p.counts(); tc.f != none && count[tc.f] != 1 {
				t.Errorf("counted: %s", list(count))
			}
		})
	}
}
