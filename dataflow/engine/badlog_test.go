package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
)

func TestTheFirstBadRowsOfEachReasonAreLoggedThenNowAndThen(t *testing.T) {
	var out bytes.Buffer
	at := time.Unix(0, 0)
	l := newBadLog(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return at })
	rows := dataflow.NewBadRows(&dataflow.Env{Step: "src"})
	defer rows.Release()
	send := func(n int, reason string) string {
		out.Reset()
		for range n {
			rows.AddRaw(&dataflow.Bad{Reason: reason, Detail: "column x"}, "0", "f:1", []byte("raw"))
		}
		b := rows.Flush()
		defer b.Release()
		l.note("src", b)
		return out.String()
	}
	if got := strings.Count(send(5, "mistyped"), "msg=\"bad row\""); got != badLogged {
		t.Fatalf("%d lines for five rows, want %d", got, badLogged)
	}
	if got := send(1, "invalid_json"); !strings.Contains(got, "invalid_json") || !strings.Contains(got, "position=f:1") {
		t.Fatalf("another reason is not logged: %q", got)
	}
	if got := send(10, "mistyped"); got != "" {
		t.Fatalf("not rate-limited: %q", got)
	}
	at = at.Add(badEvery)
	if got := send(1, "mistyped"); !strings.Contains(got, "since_last=13 total=16") {
		t.Fatalf("got %q", got)
	}
}
