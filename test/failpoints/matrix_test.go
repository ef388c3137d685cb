//go:build failpoints

package failpoints

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/failpoint"
	"frazil/dataflow/flowtest/full"
)

// occasion is when a site acts.
type occasion int

const (
	first occasion = iota
	second
	recovering // from another failure: a process or an attempt that ended behind a manifest
	occasions
)

func (o occasion) String() string { return [...]string{"first", "second", "recovering"}[o] }

// entry is one of the matrix: each site by each action on each occasion.
type entry struct {
	failpoint.Step
	occasion occasion
}

// Each action is a suite of its own: every site by it on every occasion. A site that
// did not act fails it.
var entries = len(failpoint.Sites()) * int(occasions)

func TestEverySiteFails(t *testing.T) {
	full.Suite{Name: "failpoint-errors", Total: entries, Short: 3}.Run(t, by(failpoint.Error))
}

func TestEverySitePanics(t *testing.T) {
	full.Suite{Name: "failpoint-panics", Total: entries, Short: 2}.Run(t, by(failpoint.Panic))
}

func TestEverySiteKills(t *testing.T) {
	full.Suite{Name: "failpoint-kills", Total: entries, Short: 2}.Run(t, by(failpoint.Kill))
}

func TestEverySiteStandsStill(t *testing.T) {
	full.Suite{Name: "failpoint-stalls", Total: entries, Short: 2}.Run(t, by(failpoint.Stall))
}

// by plays the entries of an action. All sites on one occasion come first.
func by(a failpoint.Action) func(*testing.T, int) full.Figures {
	return func(t *testing.T, portion int) full.Figures {
		sites := failpoint.Sites()
		e := entry{failpoint.Step{Site: sites[portion%len(sites)], Action: a}, occasion(portion / len(sites))}
		t.Logf("%s, %s", e.Site, e.occasion)
		f := full.Figures{"entries": 1, "hit_" + string(e.Site): 1}
		if a == failpoint.Kill {
			f["kills"] = e.kill(t)
		} else {
			e.inProcess(t, f)
		}
		return f
	}
}

// rounds is how many scenes are played at most until everything has acted: some sites
// come only at the beginning of one.
const rounds = 8

func (e entry) inProcess(t *testing.T, f full.Figures) {
	switch e.occasion {
	case recovering:
		playRounds(t, f, 1, failpoint.Step{Site: failpoint.AfterManifest, Action: failpoint.Error}, e.Step)
	default:
		playRounds(t, f, 1+int(e.occasion), e.Step)
	}
}

// playRounds arms steps, of which the first acts the nth time that its site is hit, and
// plays scenes until all have acted.
func playRounds(t *testing.T, f full.Figures, n int, steps ...failpoint.Step) {
	t.Helper()
	failpoint.Reset()
	t.Cleanup(failpoint.Reset)
	failpoint.ArmChain(n, steps[0], steps[1:]...)
	w := newWatch(steps...)
	want := map[failpoint.Site]int{}
	for _, s := range steps {
		want[s.Site]++
	}
	acted := func() (missing []failpoint.Site) {
		for s, n := range want {
			if failpoint.Fired(s) < n {
				missing = append(missing, s)
			}
		}
		return missing
	}
	for range rounds {
		s := playOn(t, t.TempDir(), w)
		f["scenes"]++
		if wrong := s.read(t).check(s.want()); len(wrong) > 0 {
			t.Fatalf("%s\n%s", strings.Join(wrong, "\n"), s.tail())
		}
		if len(acted()) == 0 {
			break
		}
	}
	for _, err := range w.close() {
		t.Error(err)
	}
	if missing := acted(); len(missing) > 0 {
		t.Fatalf("these sites did not act: %v", missing)
	}
	f["acted"] += int64(len(steps))
	f["runs_ended"] += int64(w.mu.ends)
	f["stood"] += w.mu.stands
	f["stood_answered"] += w.mu.answers
	f["stood_epochs"] += w.mu.epochs
}

// kill plays a scene in a process of its own, which is killed at the site, and goes on
// here.
func (e entry) kill(t *testing.T) (kills int64) {
	t.Helper()
	for range rounds {
		dir := t.TempDir()
		if e.occasion == recovering {
			if killed, _ := child(t, dir, string(failpoint.AfterManifest)); !killed {
				t.Fatal("the first process was not killed")
			}
			kills++
		}
		spec := string(e.Site)
		if e.occasion == second {
			spec += ":2"
		}
		killed, out := child(t, dir, spec)
		if killed {
			kills++
		}
		failpoint.Reset()
		w := newWatch()
		s := playOn(t, dir, w)
		w.close()
		if wrong := s.read(t).check(s.want()); len(wrong) > 0 {
			t.Fatalf("%s\n%s\n%s", strings.Join(wrong, "\n"), out, s.tail())
		}
		if killed {
			return kills
		}
	}
	t.Fatalf("%s did not act", e.Site)
	return kills
}

// child plays the scene in dir until the site in spec kills it.
func child(t *testing.T, dir, spec string) (killed bool, out string) {
	t.Helper()
	note := dir + ".fired"
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, "FRAZIL_FAILPOINT="+spec, "FRAZIL_FAILPOINT_LOG="+note)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	timer := time.AfterFunc(patience, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Signal(syscall.SIGQUIT)
		}
	})
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status := exit.Sys().(syscall.WaitStatus)
		if status.Signaled() && status.Signal() == syscall.SIGKILL {
			raw, err := os.ReadFile(note)
			if err != nil || !strings.Contains(string(raw), strings.Split(spec, ":")[0]+" kill") {
				t.Fatalf("killed, but not by %s: %q, %v", spec, raw, err)
			}
			return true, text.String()
		}
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", spec, err, text.String())
	}
	return false, text.String()
}
