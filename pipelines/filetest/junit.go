package filetest

import (
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// Suite is the tests of one file, for JUnit.
type Suite struct {
	File    string
	Results []*Result
	Took    []time.Duration
}

type xmlSuites struct {
	XMLName  xml.Name   `xml:"testsuites"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Suites   []xmlSuite `xml:"testsuite"`
}

type xmlSuite struct {
	Name     string    `xml:"name,attr"`
	Tests    int       `xml:"tests,attr"`
	Failures int       `xml:"failures,attr"`
	Time     string    `xml:"time,attr"`
	Cases    []xmlCase `xml:"testcase"`
}

type xmlCase struct {
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	File    string      `xml:"file,attr"`
	Line    int         `xml:"line,attr"`
	Time    string      `xml:"time,attr"`
	Failure *xmlFailure `xml:"failure,omitempty"`
}

type xmlFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the report that build servers read.
func JUnit(w io.Writer, suites []Suite) error {
	out := xmlSuites{}
	for _, s := range suites {
		x := xmlSuite{Name: s.File, Tests: len(s.Results)}
		var sum time.Duration
		for i, r := range s.Results {
			c := xmlCase{Name: r.Test.Name, Class: s.File, File: s.File, Line: r.Test.Node.Line, Time: seconds(s.Took[i])}
			if !r.OK() {
				x.Failures++
				c.Failure = &xmlFailure{Message: r.Failed, Text: r.Text()}
			}
			sum += s.Took[i]
			x.Cases = append(x.Cases, c)
		}
		x.Time = seconds(sum)
		out.Tests += x.Tests
		out.Failures += x.Failures
		out.Suites = append(out.Suites, x)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
