package ingest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

func TestSourceConformance(t *testing.T) {
	for _, from := range []string{"memory", "the log"} {
		t.Run("from "+from, func(t *testing.T) {
			r := newRig(t).open()
			defer func() { r.close() }()
			n := 0
			for i := range 7 {
				rs := records(i*10, i*10+i)
				if i%3 == 1 {
					rs = append(rs, []byte("no json"))
				}
				n += len(rs)
				r.accept(&Request{Records: append(rs, []byte(`{"n": "x"}`)), KeepBad: true})
				n++
			}
			if from == "the log" {
				r.reopen()
			}
			flowtest.SourceSuite(t, flowtest.SourceUnderTest{
				New:     func(*testing.T) dataflow.Source { return r.s.Source(r.env()) },
				Records: map[dataflow.Split]int{Split: n},
			})
		})
	}
}

func TestARetryIsAnsweredAsTheFirstRequest(t *testing.T) {
	bad := append(records(0, 3), []byte("no json"))
	requests := map[string]func() *Request{
		"key":    func() *Request { return &Request{Records: bad, Key: "k", Digest: 7} },
		"number": func() *Request { return &Request{Records: bad, Producer: "p", Sequence: 5, Digest: 7} },
	}
	for name, req := range requests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).open()
			defer func() { r.close() }()
			r.accept(&Request{Records: records(90, 92)})
			first := r.accept(req())
			if first.Accepted != 3 || first.First != 3 || first.Last != 5 || len(first.Rejected) != 1 || first.Rejected[0].Index != 3 {
				t.Fatalf("answer %+v", first)
			}
			again := func(when string) {
				t.Helper()
				res := r.accept(req())
				if !res.Replayed {
					t.Fatalf("%s: the retry was not recognised: %+v", when, res)
				}
				res.Replayed = false
				if fmt.Sprint(res) != fmt.Sprint(first) {
					t.Fatalf("%s: answer %+v, want %+v", when, res, first)
				}
				other := req()
				other.Digest = 8
				if _, err := r.send(other); !errors.Is(err, ErrOtherRequest) {
					t.Fatalf("%s: another request with the key: %v, want %v", when, err, ErrOtherRequest)
				}
			}
			again("at once")
			r.reopen()
			again("after a restart")
			// Enough rows for the segment to be removed.
			x := r.reader(position(1))
			r.cfg.Buffer.Bytes = 1 << 20
			for r.s.log.First() == 1 {
				r.accept(&Request{Records: records(1000, 6000)})
				x.rows()
				x.ack()
			}
			x.close()
			again("after the log was truncated")
			r.reopen()
			again("after the log was truncated and a restart")
			r.advance(59 * time.Minute)
			again("within the time that is kept")
		})
	}
}

func TestAKeyIsForgottenInTimeAndANumberIsNot(t *testing.T) {
	r := newRig(t)
	r.cfg.Buffer.Age = 0
	r.open()
	defer func() { r.close() }()
	r.accept(&Request{Records: records(0, 1), Key: "k"})
	r.accept(&Request{Records: records(0, 1), Producer: "p", Sequence: 1})
	r.advance(50 * time.Minute)
	r.accept(&Request{Records: records(0, 1), Producer: "p", Sequence: 2})
	r.advance(11 * time.Minute)
	if res := r.accept(&Request{Records: records(0, 1), Key: "k"}); res.Replayed {
		t.Fatalf("the key was remembered for longer than is kept: %+v", res)
	}
	if res := r.accept(&Request{Records: records(0, 1), Producer: "p", Sequence: 1}); !res.Replayed || !res.Forgotten || res.Accepted != 0 {
		t.Fatalf("a number that was seen: %+v", res)
	}
	if res := r.accept(&Request{Records: records(0, 1), Producer: "p", Sequence: 4}); res.Replayed {
		t.Fatalf("a new number: %+v", res)
	}
	if res := r.accept(&Request{Records: records(0, 1), Producer: "p", Sequence: 3}); res.Replayed {
		t.Fatalf("a number out of order: %+v", res)
	}
}

func TestRecordsAreRefusedOneByOneOrTogether(t *testing.T) {
	r := newRig(t).open()
	defer func() { r.close() }()
	rs := [][]byte{record(1), []byte("{"), record(2), []byte(`{"n": "x"}`)}
	res, err := r.send(&Request{Records: rs, Atomic: true})
	if !errors.Is(err, ErrRejected) || len(res.Rejected) != 2 || res.Accepted != 0 {
		t.Fatalf("all or nothing: %+v, %v", res, err)
	}
	res = r.accept(&Request{Records: rs})
	if res.Accepted != 2 || res.First != 1 || res.Last != 2 || len(res.Rejected) != 2 || res.Rejected[0].Index != 1 || res.Rejected[1].Index != 3 {
		t.Fatalf("one by one: %+v", res)
	}
	res = r.accept(&Request{Records: rs, KeepBad: true, Bad: []BadRecord{{Index: 0, Bad: dataflow.Bad{Reason: "early", Detail: "d"}, Raw: []byte("first")}}})
	if res.Accepted != 5 || res.First != 3 || res.Last != 7 {
		t.Fatalf("kept: %+v", res)
	}
	if res = r.accept(&Request{Records: records(8, 9), Atomic: true}); res.First != 8 {
		t.Fatalf("behind: %+v", res)
	}
	x := r.reader(position(1))
	defer x.close()
	want := "[bad first bad { bad {\"n\": \"x\"} 1 1 2 2 4 1 6 2 8 8]"
	if got := fmt.Sprint(x.rows()); got != want {
		t.Fatalf("rows %s, want %s", got, want)
	}
	if s := r.s.StreamStats(); s.Accepted != 8 || s.Rejected != 4 || s.Sequence != 8 {
		t.Fatalf("stats %+v", s)
	}
}

func TestAnswersOfAckCommitComeWithTheCommit(t *testing.T) {
	r := newRig(t)
	r.cfg.Ack = AckCommit
	r.open()
	first := r.post(&Request{Records: records(0, 3), Key: "k"})
	x := r.reader(position(1))
	for len(first) == 0 && r.s.StreamStats().Sequence < 3 {
		x.rows()
	}
	if len(first) > 0 {
		t.Fatal("answered before the commit")
	}
	retry := r.post(&Request{Records: records(0, 3), Key: "k"})
	x.rows()
	x.ack()
	for _, c := range []<-chan answer{first, retry} {
		if a := <-c; a.err != nil || a.res.Accepted != 3 {
			t.Fatalf("answer %+v", a)
		}
	}
	late := r.post(&Request{Records: records(3, 4)})
	x.close()
	r.close()
	if a := <-late; !errors.Is(a.err, ErrNotCommitted) {
		t.Fatalf("answer at the end %+v, want %v", a, ErrNotCommitted)
	}
	if a := <-r.post(&Request{Records: records(3, 4)}); !errors.Is(a.err, ErrClosed) {
		t.Fatalf("answer after the end %+v, want %v", a, ErrClosed)
	}
}

func TestAPreviewTellsNobodyThatSomethingIsSafe(t *testing.T) {
	r := newRig(t)
	env := r.env()
	env.Preview = true
	dec, err := env.NewDecoder()
	must(t, err)
	r.s, err = Open(env, r.cfg, Spec{Decoded: dec.Schema()})
	must(t, err)
	defer func() { r.close() }()
	if res, err := r.send(&Request{Records: records(0, 2)}); !errors.Is(err, ErrPreview) || res.Accepted != 2 {
		t.Fatalf("answer %+v, %v", res, err)
	}
	x := r.reader(position(1))
	defer x.close()
	if got := x.rows(); len(got) != 2 {
		t.Fatalf("rows %v", got)
	}
}

func TestOverTheHighWaterMarkRequestsAreRefusedUntilACommit(t *testing.T) {
	for reason, set := range map[string]func(*Config){
		"rows":  func(c *Config) { c.Buffer.Rows = 100 },
		"bytes": func(c *Config) { c.Buffer.Bytes = 4000 },
		"age":   func(c *Config) { c.Buffer.Age = component.Duration(time.Minute) },
	} {
		t.Run(reason, func(t *testing.T) {
			r := newRig(t)
			set(&r.cfg)
			r.open()
			defer func() { r.close() }()
			n := 0
			for ; n < 1000; n++ {
				_, err := r.send(&Request{Records: records(n, n+1)})
				if isBusy(err, reason) {
					break
				}
				must(t, err)
				r.advance(time.Second)
			}
			if n == 1000 || r.s.StreamStats().Refused[reason] != 1 {
				t.Fatalf("%d accepted, refused %v", n, r.s.StreamStats().Refused)
			}
			x := r.reader(position(1))
			defer x.close()
			if got := x.rows(); len(got) != n {
				t.Fatalf("%d rows, %d were accepted", len(got), n)
			}
			x.ack()
			r.accept(&Request{Records: records(n, n+1)})
		})
	}
}

func TestMetadataAndBatches(t *testing.T) {
	r := newRig(t)
	r.meta = []arrow.Field{{Name: "topic", Type: arrow.BinaryTypes.String, Nullable: true}}
	r.open()
	defer func() { r.close() }()
	meta := func(b []array.Builder, i int) { b[0].(*array.StringBuilder).Append(fmt.Sprint("t", i)) }
	r.accept(&Request{Records: [][]byte{record(0), []byte("{"), record(2)}, Meta: meta})
	bld := array.NewRecordBuilder(r.alloc, r.s.dec.Schema())
	bld.Field(0).(*array.Int64Builder).AppendValues([]int64{7, 8}, nil)
	bld.Field(1).(*array.StringBuilder).AppendValues([]string{"a", "b"}, nil)
	batch := bld.NewRecordBatch()
	bld.Release()
	r.accept(&Request{Batch: batch, Meta: meta, KeepBad: true, Bad: []BadRecord{{Index: 1, Bad: dataflow.Bad{Reason: "r"}, Raw: []byte("x")}}})
	r.reopen()
	src := r.s.Source(r.env())
	must(t, src.Assign(t.Context(), []dataflow.SplitAt{{Split: Split, From: position(1)}}))
	defer src.Close()
	p, err := src.Poll(t.Context(), dataflow.PollLimit{Rows: 100, Bytes: 1 << 20, WaitMicros: 1})
	must(t, err)
	defer p.Release()
	var got []string
	for i := range int(p.Batch.NumRows()) {
		got = append(got, string(dataflow.RowJSON(p.Batch, i)))
	}
	want := `[{"n":0,"s":"text 0","topic":"t0"} {"n":2,"s":"text 2","topic":"t2"} {"n":7,"s":"a","topic":"t0"} {"n":8,"s":"b","topic":"t2"}]`
	if fmt.Sprint(got) != want {
		t.Fatalf("rows %s, want %s", got, want)
	}
}

func TestRowsOfAnOlderSchema(t *testing.T) {
	cases := []struct {
		name string
		now  component.NamedTypes
		want string // of the rows; "": refused
	}{
		{"a column more", component.NamedTypes{{Name: "n", Type: "int64"}, {Name: "s", Type: "string"}, {Name: "x", Type: "float64"}}, `{"n":1,"s":"text 1","x":null}`},
		{"a column less", component.NamedTypes{{Name: "n", Type: "int64"}}, `{"n":1}`},
		{"another order", component.NamedTypes{{Name: "s", Type: "string"}, {Name: "n", Type: "int64"}}, `{"s":"text 1","n":1}`},
		{"another type", component.NamedTypes{{Name: "n", Type: "string"}}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t).open()
			r.accept(&Request{Records: records(1, 2)})
			r.close()
			r.types = c.now
			err := r.tryOpen()
			if c.want == "" {
				if !errors.Is(err, dataflow.ErrPermanent) {
					t.Fatalf("opened with an error %v, want a permanent one", err)
				}
				return
			}
			must(t, err)
			defer func() { r.close() }()
			src := r.s.Source(r.env())
			defer src.Close()
			must(t, src.Assign(t.Context(), []dataflow.SplitAt{{Split: Split, From: position(1)}}))
			p, err := src.Poll(t.Context(), dataflow.PollLimit{Rows: 100, Bytes: 1 << 20, WaitMicros: 1})
			must(t, err)
			defer p.Release()
			if got := string(dataflow.RowJSON(p.Batch, 0)); got != c.want {
				t.Fatalf("row %s, want %s", got, c.want)
			}
		})
	}
}

func TestExtraFieldsAreCountedOnce(t *testing.T) {
	r := newRig(t).open()
	defer func() { r.close() }()
	extra := func(src dataflow.Source) int64 { return src.(dataflow.ExtraCounter).Extra()["x"] }
	a := r.s.Source(r.env())
	defer a.Close()
	post := func() {
		r.advance(2 * time.Second)
		r.accept(&Request{Records: [][]byte{[]byte(`{"n": 1, "x": 1}`)}})
		r.accept(&Request{Records: records(0, 1)}) // Counted behind the answer of the first.
	}
	post()
	if n := extra(a); n != 1 {
		t.Fatalf("the first source tells %d, want 1", n)
	}
	b := r.s.Source(r.env())
	defer b.Close()
	post()
	if n := extra(b); n != 1 {
		t.Fatalf("the second source tells %d, want 1", n)
	}
}
