// Package oracle holds whole pipelines against results that others made from
// the same input: Apache Flink's for Nexmark. Outside data is found through
// FRAZIL_SHARED; where it is missing the tests are skipped, and fail under
// CI=true.
package oracle
