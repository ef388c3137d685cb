// Command report prints what the suites of the full tier have seen so far, as a table
// in Markdown, from the folder in which they keep their figures:
//
//	report DIR
//
// It ends with code 1 if a portion has failed and has not passed since.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"frazil/dataflow/flowtest/full"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: report DIR")
		os.Exit(2)
	}
	failed, err := report(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func report(dir string) (failed bool, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return false, err
	}
	fmt.Println("| suite | portions | failed | figures | minutes | last |\n|---|---|---|---|---|---|")
	for _, f := range files {
		p, err := full.Read(f)
		if err != nil {
			return false, err
		}
		bad := "none"
		if len(p.Failed) > 0 {
			failed = true
			bad = strings.Trim(fmt.Sprint(p.Failed), "[]")
		}
		fmt.Printf("| %s | %d of %d | %s | %s | %.0f | %s |\n", p.Suite, p.Done, p.Total, bad, p.Figures, p.Seconds/60, p.Last.Format("2006-01-02 15:04"))
	}
	return failed, nil
}
