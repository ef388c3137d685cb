// Command run plants the bugs of test/bugs, all or those named, one by one, and
// prints which test caught each. Its exit code is 0 if all were caught.
//
//	go run ./test/bugs/run           all
//	go run ./test/bugs/run 07 12     those whose names begin so
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"frazil/test/bugs"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	patches, err := bugs.Read("test/bugs")
	if err != nil {
		fmt.Fprintln(os.Stderr, "run it from the root of the repository:", err)
		os.Exit(2)
	}
	if names := os.Args[1:]; len(names) > 0 {
		patches = slices.DeleteFunc(patches, func(p bugs.Patch) bool {
			return !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(p.Name, n) })
		})
	}
	field, err := bugs.NewField(".", patches)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	caught := 0
	for _, p := range patches {
		began := time.Now()
		if err := field.Caught(ctx, p); err != nil {
			fmt.Printf("%-32s %v\n", p.Name, err)
			continue
		}
		caught++
		fmt.Printf("%-32s caught by %s (%.0f s)\n", p.Name, names(p), time.Since(began).Seconds())
	}
	fmt.Printf("%d of %d caught\n", caught, len(patches))
	if caught == 0 || caught < len(patches) {
		os.Exit(1)
	}
}

// names lists the tests of p.
func names(p bugs.Patch) string {
	var out []string
	for _, t := range p.Tests {
		out = append(out, t.Name)
	}
	return strings.Join(out, ", ")
}
