// Makes an import map of the modules in this page, and starts the application.
{
  const imports = {};
  for (const block of document.querySelectorAll("script[data-module]")) {
    const source = `${block.textContent}\n//# sourceURL=iclearn/${block.dataset.module}.js`;
    imports[`iclearn/${block.dataset.module}`] = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  }
  const map = document.createElement("script");
  map.type = "importmap";
  map.textContent = JSON.stringify({ imports });
  document.currentScript.after(map);
  import("iclearn/app").catch((error) => {
    document.getElementById("message").textContent = `This page needs a browser of 2023 or newer: ${error}`;
  });
}
