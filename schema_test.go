package frazil_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"frazil/pipelines"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "docs/pipeline.schema.json"

// TestReferenceSchemaIsFresh is renewed with the reference.
func TestReferenceSchemaIsFresh(t *testing.T) {
	fresh(t, schemaFile, pipelines.Schema())
}

// schemaOfFiles compiles what is generated now.
func schemaOfFiles(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(pipelines.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("pipeline.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("pipeline.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate judges a file's text as an editor does: variables are not known.
func validate(s *jsonschema.Schema, text []byte) error {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return err
	}
	js, err := json.Marshal(v)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(js))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// TestTheSchemaTakesWhatLintTakes: an editor marks nothing that is right.
func TestTheSchemaTakesWhatLintTakes(t *testing.T) {
	s := schemaOfFiles(t)
	var files []string
	for _, pattern := range []string{"examples/*/*.yaml", "pipelines/testdata/good/*.yaml", "test/*/testdata/*.yaml", "pipelines/filetest/testdata/pass*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 9 {
		t.Fatalf("only %d files: %v", len(files), files)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(s, text); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang == "yaml" {
				if err := validate(s, []byte(b.text)); err != nil {
					t.Errorf("%s, block at line %d: %v", p.path, b.line, err)
				}
			}
		}
	}
}

// wrongForms are the files whose mistake is one of form. The others name columns,
// steps and files that are not there, or combine what does not go together.
var wrongForms = strings.Fields(`
alias_unknown bool_words c26_01_unknown_key c26_02_misplaced_key c26_03_duplicate_key c26_07_no_unit
c26_11_dedup_unbounded c26_16_other_tools_option component_is_text compute_comma connection_kind
connection_required connection_type generate_both decimal_without_quotes decode_unknown_format duration_negative duration_words
empty empty_sinks event_time_at_top event_time_empty event_time_in_component
files_no_paths float_for_integer from_in_component from_list from_number from_twice http
list_missing merge_key name_number name_upper no_component no_from no_name no_sources not_a_block
number_for_text number_in_quotes only_comment operator_at_top other_tools_file other_tools_kafka
parallelism schema_beside_json several_at_once sink_under_operators size_without_unit step_is_text
step_name steps_as_list tab text_for_number top_key_in_step two_components type_unit type_unknown
tests_not_a_list tests_rows tests_step_word tests_steps_missing tests_unknown_key
unclosed unknown_component variable_in_flow where_missing where_number window_no_size wrong_word
`)

func TestTheSchemaRefusesWrongForms(t *testing.T) {
	s := schemaOfFiles(t)
	for _, name := range wrongForms {
		text, err := os.ReadFile("pipelines/testdata/bad/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if validate(s, text) == nil {
			t.Errorf("the schema takes %s", name)
		}
	}
}
