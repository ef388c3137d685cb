package expr

func init() {
	d := func(name, text string, examples ...example) { describe("array", name, text, examples...) }
	f := func(name, syntax, text string, examples ...example) {
		describeForm("array", name, syntax, text, examples...)
	}
	d("cardinality", "The number of elements.", example{"cardinality(array[1, null])", "2"})
	d("array_length", "The number of elements; the second operand is the dimension, 1. Null for an empty list.", example{"array_length(array[5, 6], 1)", "2"}, example{"array_length('{}'::int[], 1)", "null"})
	d("array_upper", "The number of the last element, null for an empty list.", example{"array_upper(array[5, 6], 1)", "2"})
	d("array_lower", "The number of the first element, 1; null for an empty list.", example{"array_lower(array[5, 6], 1)", "1"})
	d("array_ndims", "The number of dimensions, 1; null for an empty list.", example{"array_ndims(array[1])", "1"})
	d("array_dims", "The bounds as a text.", example{"array_dims(array[5, 6])", "[1:2]"})
	d("array_to_string", "The elements, joined; null ones are left out, or written as the last operand.", example{"array_to_string(array[1, null, 3], ',')", "1,3"}, example{"array_to_string(array[1, null, 3], ',', '?')", "1,?,3"})
	d("string_to_array", "The parts of a text between separators; parts equal to the last operand are null. A null separator gives the characters.", example{"string_to_array('a,b', ',')", "{a,b}"}, example{"string_to_array('a,-', ',', '-')", "{a,NULL}"})
	d("trim_array", "Without the last elements.", example{"trim_array(array[1, 2, 3], 1)", "{1,2}"})
	f("array_fill", "array_fill(value, array[n])", "A list of n times the value, at most 1,048,576.", example{"array_fill(7, array[3])", "{7,7,7}"})
	f("array_append", "array_append(list, element)", "A list with one more element at its end.", example{"array_append(array[1], 2)", "{1,2}"})
	f("array_prepend", "array_prepend(element, list)", "A list with one more element at its beginning.", example{"array_prepend(1, array[2])", "{1,2}"})
	f("array_cat", "array_cat(list, list)", "Two lists as one.", example{"array_cat(array[1], array[2, 3])", "{1,2,3}"})
	f("array_remove", "array_remove(list, element)", "Without the elements that are equal to one; null is equal to null.", example{"array_remove(array[1, 2, 1], 1)", "{2}"})
	f("array_replace", "array_replace(list, from, to)", "With another element in the place of those that are equal to one.", example{"array_replace(array[1, 2, 1], 1, 9)", "{9,2,9}"})
	f("array_position", "array_position(list, element [, from])", "The number of the first element that is equal to one, null if there is none.", example{"array_position(array['a', 'b'], 'b')", "2"})
	f("array_positions", "array_positions(list, element)", "The numbers of all elements that are equal to one.", example{"array_positions(array[1, 2, 1], 1)", "{1,3}"})
	f("array[...]", "array[value, ...]", "A list of values of one type.", example{"array[1, null, 3]", "{1,NULL,3}"}, example{"array[]::int64[]", "{}"})
	f("list[...]", "list[number], list[from:to]", "An element, counted from 1, null where there is none; or the elements from one to another. Of a json value the member or element, as ->.",
		example{"(array['a', 'b'])[2]", "b"}, example{"(array[1, 2, 3])[2:]", "{2,3}"})
	f("any", "value operator any(list), value operator some(list)", "Whether the operator is true for any element; null if it is for none, and null for one.", example{"2 = any(array[1, 2])", "true"}, example{"'abc' like any(array['x%', 'a%'])", "true"})
	f("all", "value operator all(list)", "Whether the operator is true for all elements.", example{"2 > all(array[1, 2])", "false"})
	f("||", "list || list, list || element, element || list", "Lists, or a list and an element, as one list.", example{"array[1] || array[2]", "{1,2}"}, example{"0 || array[1]", "{0,1}"})
	f("@>", "list @> list", "Whether the left list holds all elements of the right one.", example{"array[1, 2] @> array[2]", "true"})
	f("<@", "list <@ list", "Whether the right list holds all elements of the left one.", example{"array[1] <@ array[1, 2]", "true"})
	f("&&", "list && list", "Whether they have an element in common.", example{"array[1, 2] && array[2, 3]", "true"})
	for op, e := range map[string]example{
		"=": {"array[1, 2] = array[1, 2]", "true"}, "<>": {"array[1] <> array[2]", "true"}, "<": {"array[1, 2] < array[1, 3]", "true"},
		"<=": {"array[1] <= array[1, 2]", "true"}, ">": {"array[2] > array[1, 9]", "true"}, ">=": {"array[1, 2] >= array[1]", "true"},
	} {
		f(op, "list "+op+" list", "Compares element by element; a list that ends first is less, null is greater than all values.", e)
	}
}

func init() {
	describeForm("comparison", "row", "(value, ...), row(value, ...)", "A row of values, compared with another one from left to right, in a list of rows by in, or tested: it is null if all its values are, and not null if none is.",
		example{"(1, 2) < (1, 3)", "true"}, example{"(1, null) is not null", "false"}, example{"(1, 'a') in ((1, 'a'), (2, 'b'))", "true"})
}
