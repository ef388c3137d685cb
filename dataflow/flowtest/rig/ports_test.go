package rig

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A port that one process has taken is not taken by another, although nobody listens.
func TestPortsAreTakenOnce(t *testing.T) {
	if os.Getenv("FRAZIL_TAKE_PORTS") != "" {
		ports, err := freePorts(300)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			os.Stdout.WriteString("port " + strconv.Itoa(p) + "\n")
		}
		os.Stdin.Read(make([]byte, 1))
		return
	}
	var all []int
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPortsAreTakenOnce$")
		cmd.Env = append(os.Environ(), "FRAZIL_TAKE_PORTS=1")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer in.Close() // It ends.
		for range 300 {
			var line []byte
			for b := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; line = append(line, b[0]) {
				if _, err := out.Read(b); err != nil {
					t.Fatal(err)
				}
			}
			p, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(line), "port ")))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 900 {
		t.Errorf("900 ports were taken, %d of them different", n)
	}
}
