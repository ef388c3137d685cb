package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest"
)

func TestConformance(t *testing.T) {
	flowtest.SinkSuite(t, func(t *testing.T) flowtest.SinkUnderTest {
		dir := filepath.Join(t.TempDir(), "out")
		return flowtest.SinkUnderTest{
			NewWriter: func(t *testing.T) dataflow.Writer {
				w, err := newWriter(testEnv(), flowtest.SinkSchema, testConfig(dir))
				if err != nil {
					t.Fatal(err)
				}
				return w
			},
			NewCommitter: func(*testing.T) dataflow.Committer {
				return newCommitter(testEnv(), flowtest.SinkSchema, testConfig(dir))
			},
			Visible: func(t *testing.T) (rows []string) {
				names, _ := filepath.Glob(filepath.Join(dir, "*.ndjson"))
				for _, name := range names {
					text, err := os.ReadFile(name)
					if err != nil {
						t.Fatal(err)
					}
					rows = append(rows, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
				}
				return rows
			},
		}
	})
}
