#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/arguments.h"

namespace cxtrain {

/// Components by name: strategies, models, data modules, callbacks, loggers. One mechanism for all of them.
///
/// An interface takes part by naming its kind:
///
///     class MetricLogger { public: static constexpr std::string_view kKind = "logger"; ... };
///
/// and a plugin adds an implementation:
///
///     registry.add<MetricLogger>("wandb", "sends metrics to Weights & Biases", {},
///                                [](const Arguments&) { return std::make_unique<WandbLogger>(); });
///
/// Where the program has to know something of a component before it makes one, the interface names a type for
/// it, `using Traits = StrategyTraits;`, and the plugin says it:
///
///     registry.add<Strategy>("ddp", "gradients averaged over all ranks", {}, StrategyTraits{},
///                            [](const Arguments&) { return std::make_unique<DdpStrategy>(); });
///
/// Where a component may want to know something of the run that it is made for, the interface names a type
/// for that, `using Context = RunFolder;`, and a factory may take it as its second parameter.
class Registry {
 public:
  template <class Interface>
  struct FactoryOf {
    using Type = std::function<std::unique_ptr<Interface>(const Arguments&)>;
  };
  template <class Interface>
  requires requires { typename Interface::Context; }
  struct FactoryOf<Interface> {
    struct Type
        : std::function<std::unique_ptr<Interface>(const Arguments&, const typename Interface::Context&)> {
      using Base =
          std::function<std::unique_ptr<Interface>(const Arguments&, const typename Interface::Context&)>;
      using Base::Base;
      template <class Make>
      requires std::is_invocable_v<Make&, const Arguments&> Type(
          Make make)  // implicit: a factory that does not ask for the context
          : Base([make = std::move(make)](const Arguments& arguments, const auto&) {
              return make(arguments);
            }) {}
    };
  };
  template <class Interface>
  using Factory = typename FactoryOf<Interface>::Type;

  struct Entry {
    std::string kind, name, help;
    std::vector<ArgumentSpec> arguments;
    std::string origin;  ///< the file that it came from, or "built in"
    std::any factory;
    std::any traits;  ///< of the type that the interface names; empty where it names none
  };

  template <class Interface>
  requires(!requires { typename Interface::Traits; }) void add(std::string name, std::string help,
                                                               std::vector<ArgumentSpec> arguments,
                                                               Factory<Interface> factory) {
    insert({std::string(Interface::kKind),
            std::move(name),
            std::move(help),
            std::move(arguments),
            origin_,
            std::move(factory),
            {}});
  }
  template <class Interface>
  void add(std::string name, std::string help, std::vector<ArgumentSpec> arguments,
           typename Interface::Traits traits, Factory<Interface> factory) {
    insert({std::string(Interface::kKind), std::move(name), std::move(help), std::move(arguments), origin_,
            std::move(factory), std::move(traits)});
  }

  /// The entry, or null.
  const Entry* find(std::string_view kind, std::string_view name) const;

  /// A new component; `context` for those interfaces that name a type for it. Throws PluginError naming those
  /// found when there is none of this name.
  template <class Interface, class... Context>
  std::unique_ptr<Interface> make(std::string_view name, const Arguments& arguments,
                                  const Context&... context) const {
    return std::any_cast<const Factory<Interface>&>(require(Interface::kKind, name).factory)(arguments,
                                                                                             context...);
  }

  /// What the component said of itself. Throws PluginError naming those found when there is none of this
  /// name.
  template <class Interface>
  typename Interface::Traits traits(std::string_view name) const {
    return std::any_cast<typename Interface::Traits>(require(Interface::kKind, name).traits);
  }

  /// Throws PluginError naming those found.
  const Entry& require(std::string_view kind, std::string_view name) const;
  std::vector<std::string> names(std::string_view kind) const;

  /// Whether something came from this file.
  bool has_origin(std::string_view origin) const;

  /// What `Entry::origin` of the following additions says. Called by the loader.
  void set_origin(std::string origin) { origin_ = std::move(origin); }

 private:
  void insert(Entry entry);

  std::map<std::pair<std::string, std::string>, Entry> entries_;
  std::string origin_ = "built in";
};

}  // namespace cxtrain
