// How sections are found: the same for who makes the index and who looks into it.

export const SEARCHED = {
  fields: ["title", "heading", "text"],
  storeFields: ["title", "heading", "text"],
  searchOptions: { boost: { title: 4, heading: 3 }, prefix: true, fuzzy: 0.15, combineWith: "AND" },
};
